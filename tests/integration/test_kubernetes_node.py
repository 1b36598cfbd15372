"""A namespace of a real Kubernetes as a node of a local cluster: jobs in pods, what kills them, and what is refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from socket import create_connection
from typing import Any
from urllib.parse import urlsplit

import pytest

from grass.api.client import Client
from grass.api.login import log_in
from grass.api.login_invitation import parse_invitation
from grass.cli.exits import Exit
from grass.errors import NotAllowedError
from grass.kubernetes.api import ApiServer
from grass.model.reasons import ReasonCode
from grass.supervision.supervisor import Supervisor
from tests.support import kubernetes
from tests.support.engine import IMAGE
from tests.support.local_cluster import LocalCluster
from tests.support.waiting import wait_until

GRASS = Path(sys.executable).parent / "grass"


@dataclass
class Node:
    """The node ``pods`` of a cluster, the namespace that it is, and an administrator's way into it."""

    cluster: LocalCluster
    server: ApiServer
    namespace: str

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}"

    def grass(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "GRASS_HOME": str(self.cluster.home)}
        return subprocess.run([GRASS, *arguments], env=env, capture_output=True, text=True, timeout=55, check=False)

    def kill_agent(self) -> None:
        """Kill the agent of the namespace, and wait until supervisord has started it again."""
        wait_until(self.agent, 20, "an agent that runs")  # 0 would mean the tests' own process group
        before = self.agent()
        assert before
        os.kill(before, signal.SIGKILL)
        wait_until(lambda: self.agent() not in (0, before), 10, "a new agent")

    def agent(self) -> int:
        """Return its pid; 0: it does not run."""
        states = Supervisor(self.cluster.config).daemons()
        return next((each.pid or 0 for each in states if each.name == "node-agent@pods"), 0)

    def add(self, name: str, words: str = "", *more: str, kubeconfig: Path = kubernetes.KUBECONFIG) -> str:
        return self.refused(Exit.OK, name, words, *more, kubeconfig=kubeconfig)

    def refused(
        self, code: int, name: str, words: str = "", *more: str, kubeconfig: Path = kubernetes.KUBECONFIG
    ) -> str:
        size = [] if "--plan" in more else ["--cpu", "2", "--memory", "2GiB"]
        place = ["--kubernetes", words or self.namespace, "--kubeconfig", str(kubeconfig)]
        done = self.grass("node", "add", *place, "--name", name, *size, *more)
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done.stdout if code == Exit.OK else done.stderr

    def pods(self, job: str = "") -> list[dict[str, Any]]:
        """Return the pods of a job, or all."""
        found = self.server.get(f"{self.path}/pods", kubernetes.ANY)["items"]
        return [each for each in found if each["metadata"]["annotations"]["grass-cluster.org/attempt"].startswith(job)]

    def left(self) -> list[dict[str, Any]]:
        """Return the pods that stay: nobody asked the kubelet to end them, or it may not remove them once they have."""
        metadata = [each["metadata"] for each in self.pods()]
        return [each for each in metadata if "deletionTimestamp" not in each or each.get("finalizers")]


@contextmanager
def new_node() -> Iterator[Node]:
    with kubernetes.namespace() as (server, namespace), LocalCluster().running() as cluster:
        made = Node(cluster, server, namespace)
        made.add("pods")
        yield made


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with new_node() as made:
        yield made


@pytest.fixture
def client(node: Node) -> Iterator[Client]:
    with node.cluster.client() as client:
        yield client


def job(name: str, command: str, **more: Any) -> dict[str, Any]:
    parts = {"image": IMAGE, "command": command, "resources": {"cpu": 0.01, "memory": "16MiB"}, **more}
    return {"name": name, "components": {"t": parts}}


def texts(client: Client, name: str) -> list[str]:
    return sorted(line.text for line in client.logs(name))


@pytest.mark.nightly
def test_a_job_runs_in_pods_and_its_output_and_exit_codes_come_back(node: Node, client: Client) -> None:
    client.start(job("first", "echo I am $GRASS_TASK; echo oh >&2; exit $((GRASS_INDEX * 3))", replicas=3))
    assert client.wait("first", 45).state == "FAILED"
    assert [(each.node, each.exit_code, each.attempt) for each in client.tasks("first")] == [
        ("pods", 0, 1),
        ("pods", 3, 1),
        ("pods", 6, 1),
    ]
    assert texts(client, "first") == [*(f"I am first.t.{n}" for n in range(3)), "oh", "oh", "oh"]


@pytest.mark.nightly
def test_each_user_sees_the_output_of_own_pods_only(node: Node, client: Client, tmp_path: Path) -> None:
    client.start(job("mine", "echo secret"))
    log_in(parse_invitation(client.add_user("ann").invitation), tmp_path / "clusters" / "lab")
    with Client("lab", home=tmp_path) as ann:
        ann.start(job("hers", "echo hers"))
        assert ann.wait("hers", 45).state == client.wait("mine", 45).state == "SUCCEEDED"
        assert texts(ann, "hers") == ["hers"]
        with pytest.raises(NotAllowedError):
            texts(ann, "mine")


@pytest.mark.nightly
def test_a_gang_runs_at_the_same_time(node: Node, client: Client) -> None:
    client.start({**job("gang", "sleep 2", replicas=3), "gang": True})
    assert client.wait("gang", 45).state == "SUCCEEDED"
    times = [(each.started, each.ended) for each in client.tasks("gang")]
    assert max(began for began, _ in times) < min(ended for _, ended in times)


ORACLE = """
echo "ran $GRASS_ATTEMPT"
for i in 0 1 2 3 4 5 6 7 8 9; do echo line $i; sleep 0.3; done
exit $((GRASS_INDEX % 3))
"""


@pytest.mark.nightly
@pytest.mark.parametrize("tasks", [12, pytest.param(200, marks=[pytest.mark.nightly, pytest.mark.timeout(600)])])
def test_an_array_loses_and_repeats_nothing_while_its_agent_and_its_master_are_killed(
    node: Node, client: Client, tasks: int
) -> None:
    name = f"array-{tasks}"
    client.start(job(f"before-{tasks}", "echo I am $GRASS_TASK"))
    assert client.wait(f"before-{tasks}", 45).state == "SUCCEEDED"
    client.start(job(name, ORACLE, replicas=tasks))
    wait_until(lambda: any(each.state == "RUNNING" for each in client.tasks(name)), 40, "a task that runs")
    node.kill_agent()
    wait_until(lambda: any(each.ended for each in client.tasks(name)), 40, "a task that has ended")
    node.cluster.restart("master-agent")
    node.kill_agent()
    client.wait(name, 60 + 2.4 * tasks)  # the engine of the tests' cluster starts a pod in about 1.8 s
    found = client.tasks(name)
    assert [(each.index, each.exit_code, each.attempt) for each in found] == [(n, n % 3, 1) for n in range(tasks)]
    lines: dict[int, list[str]] = {}
    for line in client.logs(name):
        lines.setdefault(int(line.task.rpartition(".")[2]), []).append(line.text)
    assert texts(client, f"before-{tasks}") == [f"I am before-{tasks}.t.0"]  # a log that was complete stays as it is
    expected = ["ran 1", *(f"line {n}" for n in range(10))]
    assert lines == {n: expected for n in range(tasks)}


SERVER = "sleep 3; exec nc -ll -p $GRASS_PORT_WEB -e echo up"


@pytest.mark.nightly
def test_a_running_pod_takes_commands_and_connections_and_is_stopped(node: Node, client: Client) -> None:
    client.start(job("held", SERVER, ports=["web"], ready={"port": "web"}, env={"COLOUR": "green"}))
    wait_until(lambda: client.tasks("held")[0].ready, 45, "its port")
    run = client.execute("held", "t.0", ["sh", "-c", "echo $COLOUR; echo oh >&2; exit 7"])
    pieces = list(run.output())
    assert b"".join(data for stream, data in pieces if stream == "stdout") == b"green\n"
    assert b"".join(data for stream, data in pieces if stream == "stderr") == b"oh\n"
    assert run.code == 7
    forward = client.forward("held", "t", 0, port="web")
    with ThreadPoolExecutor(1) as threads:
        serving = threads.submit(forward.serve)
        try:
            address = urlsplit(forward.url)
            with create_connection((address.hostname or "", address.port or 0), 10) as local:
                local.settimeout(10)
                assert local.recv(10) == b"up\n"
        finally:
            forward.close()
            serving.result(10)
    client.stop("held")
    assert client.wait("held", 30).state == "STOPPED"
    wait_until(lambda: all("deletionTimestamp" in each["metadata"] for each in node.pods("held")), 30)


def waits_for(client: Client, name: str, code: ReasonCode) -> str:
    """Wait until tasks wait for this reason. Return what it says."""

    def found() -> str | None:
        reasons = [each.reason for each in client.tasks(name) if each.reason is not None]
        return next((each.message for each in reasons if each.code is code), None)

    wait_until(found, 40, code.value)
    return found() or ""


@pytest.mark.nightly
def test_a_full_quota_is_named_and_the_task_runs_when_there_is_room(node: Node, client: Client) -> None:
    hard = {"spec": {"hard": {"pods": "1"}}}
    node.server.post(f"{node.path}/resourcequotas", {"metadata": {"name": "narrow"}, **hard}, kubernetes.ANY)
    try:
        quota = f"{node.path}/resourcequotas/narrow"
        none = {"pods": "0"}
        wait_until(lambda: node.server.get(quota, kubernetes.ANY).get("status", {}).get("used") == none, 30, "room")
        client.start(job("pair", "while [ ! -e /tmp/go ]; do sleep 0.1; done", replicas=2))
        assert "quota narrow of its namespace is used up" in waits_for(client, "pair", ReasonCode.NAMESPACE_QUOTA)
        for _ in range(2):
            wait_until(
                lambda: [each for each in client.tasks("pair") if each.state == "RUNNING"], 30, "a task that runs"
            )
            [running] = [each for each in client.tasks("pair") if each.state == "RUNNING"]
            go = client.execute("pair", f"t.{running.index}", ["touch", "/tmp/go"])
            list(go.output())
            wait_until(lambda index=running.index: client.tasks("pair")[index].state == "SUCCEEDED", 30, "its end")
        assert client.wait("pair", 10).state == "SUCCEEDED"
    finally:
        node.server.delete(f"{node.path}/resourcequotas/narrow", kubernetes.ANY)


@pytest.mark.nightly
def test_the_bounds_of_an_administrator_are_a_reason_in_words(node: Node, client: Client) -> None:
    limits = {"limits": [{"type": "Container", "max": {"memory": "64Mi"}}]}
    path = f"{node.path}/limitranges"
    node.server.post(path, {"metadata": {"name": "small"}, "spec": limits}, kubernetes.ANY)
    try:
        client.start(job("large", "true", resources={"cpu": 0.01, "memory": "128MiB"}))
        assert client.wait("large", 45).state == "FAILED"
        [task] = client.tasks("large")
        assert task.reason is not None
        assert task.reason.code is ReasonCode.CANNOT_START
        assert "maximum memory usage per Container is 64Mi, but limit is 134217728" in task.reason.message
    finally:
        node.server.delete(f"{path}/small", kubernetes.ANY)


@pytest.mark.nightly
def test_an_image_that_cannot_be_pulled_is_the_reason_of_a_task_that_waits(node: Node, client: Client) -> None:
    client.start(job("unknown", "true", image="registry.invalid/none:1"))
    assert "its image cannot be pulled" in waits_for(client, "unknown", ReasonCode.IMAGE)
    client.stop("unknown")
    assert client.wait("unknown", 30).state == "STOPPED"


@pytest.mark.nightly
def test_a_task_whose_pod_somebody_deletes_or_evicts_starts_again_uncharged(node: Node, client: Client) -> None:
    client.start(job("taken", "echo ran $GRASS_ATTEMPT; [ $GRASS_ATTEMPT = 1 ] || exit 0; exec sleep 100", replicas=3))
    wait_until(lambda: all(each.state == "RUNNING" for each in client.tasks("taken")), 45, "three tasks")
    pods = {each["metadata"]["annotations"]["grass-cluster.org/attempt"]: each for each in node.pods("taken")}
    deleted, forced, evicted = (f"{node.path}/pods/{pods[key]['metadata']['name']}" for key in sorted(pods))
    node.server.delete(deleted, kubernetes.ANY, {"gracePeriodSeconds": 1})
    node.server.delete(forced, kubernetes.ANY, {"gracePeriodSeconds": 0})
    body = {
        "apiVersion": "policy/v1beta1",
        "kind": "Eviction",
        "metadata": {"name": evicted.rpartition("/")[2], "namespace": node.namespace},
        "deleteOptions": {"gracePeriodSeconds": 1},
    }
    node.server.post(f"{evicted}/eviction", body, kubernetes.ANY)
    view = client.wait("taken", 50)
    attempts = [(each.task, each.attempt, each.exit_code, each.reason) for each in client.attempts("taken")]
    assert view.state == "SUCCEEDED", attempts
    assert [(each.attempt, each.restarts) for each in client.tasks("taken")] == [(2, 0)] * 3


def away(folder: Path) -> Path:
    """Return a kubeconfig of a server that does not answer."""
    path = folder / "away.kubeconfig"
    path.write_text(kubernetes.KUBECONFIG.read_text().replace("16443", "1"))
    return path


def nobody(node: Node, folder: Path) -> Path:
    """Return a kubeconfig of a user without rights."""
    return kubernetes.account(node.server, node.namespace, "nobody", folder)


@pytest.mark.nightly
def test_what_is_wrong_is_said_and_leaves_nothing_behind(node: Node, client: Client, tmp_path: Path) -> None:
    rights = nobody(node, tmp_path)
    cases = {
        "context": lambda: node.refused(Exit.BAD_INPUT, "bad", f"nocontext/{node.namespace}"),
        "namespace": lambda: node.refused(Exit.BAD_INPUT, "bad", "no-such-namespace"),
        "name": lambda: node.refused(Exit.BAD_INPUT, "bad", "Bad_Name"),
        "node": lambda: node.refused(Exit.BAD_INPUT, "Bad Name!"),
        "rights": lambda: node.refused(Exit.NOT_ALLOWED, "bad", kubeconfig=rights),
        "server": lambda: node.refused(Exit.UNREACHABLE, "bad", kubeconfig=away(tmp_path)),
        "again": lambda: node.refused(Exit.BAD_INPUT, "pods"),
        "taken": lambda: node.refused(Exit.BAD_INPUT, "local"),
    }
    with ThreadPoolExecutor(len(cases)) as threads:
        said = {name: done.result() for name, done in {n: threads.submit(case) for n, case in cases.items()}.items()}
    assert "nocontext" in said["context"]
    assert "no-such-namespace" in said["namespace"]
    assert "'Bad_Name' is not the name of a namespace" in said["name"]
    for verb in ("create", "get", "list", "watch", "patch", "delete"):
        assert f"{verb} pods (for tasks)" in said["rights"]
    assert "get pods/log" in said["rights"] and "create pods/exec" in said["rights"]
    assert "does not answer" in said["server"]
    assert "node pods: exists already" in said["again"]
    assert sorted(each.name for each in client.nodes()) == ["local", "pods"]
    folders = Path(node.cluster.config.home) / "nodes"
    assert [each.name for each in folders.iterdir()] == ["pods"]
    assert '"kind": "Role"' in node.add("bad", "", "--plan")
    assert sorted(each.name for each in client.nodes()) == ["local", "pods"]


@pytest.mark.nightly
def test_neither_a_removed_node_nor_a_deleted_cluster_leaves_a_pod_also_if_its_agent_was_killed(tmp_path: Path) -> None:
    with new_node() as node:
        start_and_kill_the_agent(node, "left-node")
        settings = Path(node.cluster.config.home) / "nodes" / "pods" / "cluster.json"
        before = settings.read_text()
        settings.write_text(before.replace(str(kubernetes.KUBECONFIG), str(away(tmp_path))))
        done = node.grass("node", "remove", "pods", "--yes")
        assert done.returncode == Exit.UNREACHABLE and "`--force` leaves them behind" in done.stderr, done.stderr
        settings.write_text(before)
        done = node.grass("node", "remove", "pods", "--force", "--yes")
        assert done.returncode == 0, done.stderr
        assert not (Path(node.cluster.config.home) / "nodes" / "pods").exists()
        assert node.left() == []
        node.add("pods")
        start_and_kill_the_agent(node, "left-cluster")
        node.cluster.delete()
        assert node.left() == []


def start_and_kill_the_agent(node: Node, name: str) -> None:
    with node.cluster.client() as client:
        client.start(job(name, "trap exit TERM; sleep 300 & wait"))
        wait_until(lambda: client.tasks(name)[0].state == "RUNNING", 40, "a task that runs")
    node.kill_agent()
