"""DLRover: stock ``dlrover-run`` trains over a master of Grass, and that master goes on after it was killed."""

from __future__ import annotations

import http.client
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from grass.api.client import Client
from tests.support.dlrover_pickles import answered, client_load, request
from tests.support.frameworks import dlrover_folder
from tests.support.local_cluster import LocalCluster
from tests.support.waiting import wait_until

TRAIN = Path(__file__).parents[1] / "support" / "elastic_train.py"
CALLS = str(TRAIN.with_name("dlrover_client.py"))
SERVERS = str(TRAIN.with_name("dlrover_servers.py"))
MASTER = "dlrover-master"
CLIENT = (
    "import os, time; print('at', os.environ['DLROVER_MASTER_ADDR'], os.environ['JOB_UID'], flush=True); time.sleep(99)"
)
TRAINING, CHECK = "elastic-training", "network-check"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster().running() as made:
        yield made


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    with cluster.client() as made:
        yield made
    cluster.stop_jobs()


def text(client: Client, job: str, task: str = "") -> str:
    return "".join(f"{record.text}\n" for record in client.logs(job, task or None))


def pid(client: Client, job: str, task: str) -> int:
    [found] = [each.pid for each in client.tasks(job) if each.task == task and each.state == "RUNNING"] or [0]
    return int(found)


def started(client: Client, **worker: Any) -> str:
    part = {"framework": "dlrover", "resources": {"cpu": 0.1}, **worker}
    return str(client.start({"name": "train", "components": {"worker": part}}).id)


class Agent:
    """DLRover's client in a task, as this test plays it: over the relay of the task."""

    def __init__(self, client: Client, job: str, task: str, node: int) -> None:
        wait_until(lambda: "at " in text(client, job, task), what="the relay")
        found = re.search(r"at (\S+) (\S+)", text(client, job, task))
        assert found is not None
        self.address, self.uid, self.node = found[1], found[2], node

    def call(self, path: str, body: bytes, uid: str | None = None) -> tuple[int, bytes]:
        """Ask again, as DLRover's client does ten times, if the master ends while it is asked."""
        for _ in range(9):
            with suppress(ConnectionError):
                return self.call_once(path, body, uid)
        return self.call_once(path, body, uid)

    def call_once(self, path: str, body: bytes, uid: str | None) -> tuple[int, bytes]:
        with closing(http.client.HTTPConnection(self.address, timeout=60)) as connection:
            connection.request("POST", path, body, {"job_uid": self.uid if uid is None else uid})
            answer = connection.getresponse()
            return answer.status, answer.read()

    def get(self, message: str, **fields: Any) -> Any:
        status, body = self.call("/get", request(message, self.node, **fields))
        assert status == 200, body
        return answered(body)

    def join(self, name: str = TRAINING) -> None:
        self.get("JoinRendezvousRequest", node_id=self.node, node_rank=self.node, local_world_size=1, rdzv_name=name)

    def world(self, name: str = TRAINING) -> dict[int, int]:
        return dict(self.get("CommWorldRequest", node_id=self.node, rdzv_name=name).world)

    def checked(self, *, passed: bool) -> None:
        kind = "NODE_CHECK_SUCCEEDED" if passed else "NODE_CHECK_FAILED"
        fields = {"event_type": kind, "event_elapsed_time": 1.0, "node": ("NodeMeta", {"rank": self.node})}
        status, body = self.call("/report", request("NodeEvent", self.node, **fields))
        assert status == 200 and client_load(body).success


def test_a_killed_master_loses_nothing_and_its_clients_find_the_next_one(client: Client) -> None:
    job = started(client, replicas=2, command=["python3", "-m", "grass_dlrover.agent", "python3", "-c", CLIENT])
    agents = [Agent(client, job, f"worker.{index}", index) for index in (0, 1)]
    for agent in agents:
        agent.join()
    wait_until(lambda: agents[0].world() == {0: 1, 1: 1}, what="the first round")
    status, body = agents[0].call("/report", request("KeyValuePair", key="k", value=os.urandom(40_000), op="set"))
    assert status == 200 and client_load(body).success
    before = agents[1].get("KeyValuePair", key="k", op="get").value
    os.kill(pid(client, job, f"{MASTER}.0"), signal.SIGKILL)
    # the relay waits for the next master, which has another port
    assert agents[1].get("KeyValuePair", key="k", op="get").value == before
    assert agents[1].world() == {0: 1, 1: 1}
    assert agents[0].get("CommWorldRequest", node_id=0, rdzv_name=TRAINING).round == 1
    [attempt] = [each.attempt for each in client.tasks(job) if each.task == f"{MASTER}.0"]
    assert attempt == 2
    assert agents[0].call("/get", request("HeartBeat"), uid="another")[0] == 406
    status, body = agents[0].call("/get", request("GlobalStep"))
    assert (status, body) == (400, b"GlobalStep of /get, which DLRover 0.6.1 does not send")
    wait_until(lambda: "refused: GlobalStep" in text(client, job, f"{MASTER}.0"), what="the line in the log")


def test_a_node_that_the_check_names_is_an_event_and_the_answer_to_why_until_the_next_check(client: Client) -> None:
    job = started(client, replicas=2, command=["python3", "-m", "grass_dlrover.agent", "python3", "-c", CLIENT])
    agents = [Agent(client, job, f"worker.{index}", index) for index in (0, 1)]

    def check(*passed: bool) -> None:
        for agent in agents:
            agent.join(CHECK)
        wait_until(lambda: agents[0].world(CHECK) == {0: 1, 1: 1}, what="the round")
        for agent, good in zip(agents, passed, strict=True):
            agent.checked(passed=good)

    check(False, False)
    check(True, False)
    wait_until(lambda: bool(client.why(job).findings), what="the finding")
    [finding] = client.why(job).findings
    assert (finding.cause, finding.tasks) == ("node-check", ("worker.1",))
    assert finding.what == "The network check of DLRover names node local of worker.1 as at fault."
    wait_until(lambda: [each.task for each in client.events() if each.kind == "node-checked"] == ["worker.1"])
    check(True, True)
    wait_until(lambda: not client.why(job).findings, what="the end of the finding")


def test_each_message_of_the_stock_client_is_answered(client: Client) -> None:
    env = {"PATH": f"{dlrover_folder()}/bin:/usr/local/bin:/usr/bin:/bin"}
    job = started(client, command=["python3", "-m", "grass_dlrover.agent", "python3", CALLS], env=env)
    state = client.wait(job, 45.0).state
    assert state == "SUCCEEDED", text(client, job)[-4000:]
    assert "all answered" in text(client, job, "worker.0")
    assert "refused" not in text(client, job, f"{MASTER}.0")


def test_another_version_of_dlrover_is_named(client: Client, tmp_path: Path) -> None:
    (tmp_path / "dlrover-0.5.0.dist-info").mkdir()
    (tmp_path / "dlrover-0.5.0.dist-info" / "METADATA").write_text("Name: dlrover\nVersion: 0.5.0\n")
    program = tmp_path / "dlrover-run"
    program.write_text(f"#!{sys.executable}\nprint('started')\n")
    program.chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(tmp_path)}
    job = started(client, command="dlrover-run train.py", env=env)
    client.wait(job, 30.0)
    said = text(client, job, "worker.0")
    assert (
        "has DLRover 0.5.0; framework dlrover of Grass knows the messages of 0.6.1 only; install dlrover==0.6.1" in said
    )
    assert "started" not in said


@pytest.mark.nightly  # test_each_message_of_the_stock_client_is_answered runs its client in every run
def test_the_roles_of_an_elastic_job_find_each_other_and_share_the_data(client: Client) -> None:
    path = f"{dlrover_folder()}/bin:/usr/local/bin:/usr/bin:/bin"
    container = {"name": "main", "command": ["python3", SERVERS], "env": [{"name": "PATH", "value": path}]}
    pod = {"spec": {"containers": [{**container, "resources": {"limits": {"cpu": "100m"}}}]}}
    counts = {"ps": 2, "chief": 1, "worker": 2}
    roles = {role: {"replicas": count, "template": pod} for role, count in counts.items()}
    job = client.start(
        {
            "apiVersion": "elastic.iml.github.io/v1alpha1",
            "kind": "ElasticJob",
            "metadata": {"name": "servers"},
            "spec": {"distributionStrategy": "ParameterServerStrategy", "replicaSpecs": roles},
        }
    ).id
    assert client.wait(job, 50.0).state == "SUCCEEDED", text(client, job)[-4000:]
    said = re.findall(r"(\w+) (\d) of \['chief', 'ps', 'worker'\] did \[(.*)\]", text(client, job))
    assert sorted((role, rank) for role, rank, _ in said) == [("chief", "0"), ("worker", "0"), ("worker", "1")]
    assert sorted(int(each) for _, _, done in said for each in done.split(", ") if each) == [0, 1, 2, 3, 4, 5]


@pytest.mark.nightly  # the first test shows in every run that a killed master loses nothing
@pytest.mark.timeout(600)
def test_stock_agents_check_nodes_and_train_through_kills_and_changes_of_size(
    cluster: LocalCluster, client: Client, tmp_path: Path
) -> None:
    stop, sizes = tmp_path / "stop", re.compile(r"goes on size=(\d)")
    env = {"PATH": f"{dlrover_folder()}/bin:/usr/local/bin:/usr/bin:/bin", "OMP_NUM_THREADS": "1"}
    command = f"dlrover-run --network-check --monitor-interval 0.2 {TRAIN} {tmp_path / 'checkpoint'} {stop}"
    job = started(client, replicas=2, min=1, max=3, restart={"policy": "on-failure"}, env=env, command=command)

    def goes_on(size: int, what: str) -> None:
        """Wait until as many members train as they are, after those that trained so before."""
        wait_until(lambda: sizes.findall(text(client, job))[seen[0] :].count(str(size)) >= size, 150, what, 0.5)
        seen[0] = len(sizes.findall(text(client, job)))
        print(f"{time.monotonic() - begun:.0f} s: {what}")

    seen, begun = [0], time.monotonic()
    goes_on(2, "two agents that were checked")
    os.kill(pid(client, job, f"{MASTER}.0"), signal.SIGKILL)
    wait_until(lambda: "continued" in text(client, job, f"{MASTER}.0"), what="the next master")
    os.kill(training(pid(client, job, "worker.0")), signal.SIGKILL)
    goes_on(2, "after the kill of a worker")
    os.kill(agent(pid(client, job, "worker.1")), signal.SIGKILL)
    goes_on(2, "after the kill of an agent")
    client.scale(job, "worker", 3)
    goes_on(3, "after a scale-out")
    client.scale(job, "worker", 2)
    goes_on(2, "after a scale-in")
    for daemon in ("master-agent", "node-agent"):
        cluster.restart(daemon)
    steps = len(list(tmp_path.glob("checkpoint.*")))
    wait_until(lambda: len(list(tmp_path.glob("checkpoint.*"))) > steps + 20, 60, "more steps")
    assert len(sizes.findall(text(client, job))) == seen[0], "nobody started again"
    stop.touch()
    assert client.wait(job, 120.0).state == "SUCCEEDED"
    assert "node check: rank 0 passed" in text(client, job, f"{MASTER}.0")


@pytest.mark.nightly  # the test before, with two agents
@pytest.mark.timeout(900)
def test_eight_stock_agents_check_their_nodes_and_train_together(client: Client, tmp_path: Path) -> None:
    stop = tmp_path / "stop"
    env = {"PATH": f"{dlrover_folder()}/bin:/usr/local/bin:/usr/bin:/bin", "OMP_NUM_THREADS": "1"}
    command = f"dlrover-run --network-check --monitor-interval 1 {TRAIN} {tmp_path / 'checkpoint'} {stop}"
    job = started(client, replicas=8, resources={"cpu": 0.1}, env=env, command=command)
    wait_until(lambda: text(client, job).count("goes on size=8") >= 8, 600, "eight members", 2.0)
    stop.touch()
    assert client.wait(job, 120.0).state == "SUCCEEDED"
    said = text(client, job, f"{MASTER}.0")
    assert all(f"node check: rank {rank} passed" in said for rank in range(8)), said[-4000:]
    assert not client.why(job).findings


def descendants(root: int, words: str) -> list[int]:
    found = psutil.Process(root).children(recursive=True)
    return [each.pid for each in found if words in " ".join(each.cmdline())]


def agent(root: int) -> int:
    """Return the pid of the stock agent."""
    return descendants(root, "bin/dlrover-run")[-1]


def training(root: int) -> int:
    """Return the pid of a training process."""
    return descendants(root, f"-u {TRAIN}")[0]
