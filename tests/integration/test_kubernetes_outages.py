"""Parts of a real Kubernetes that are killed, and rights, quotas and agents that are taken away, while pods run.

Each attempt adds its key to a file of this machine: no key may be there twice, and none may be missing.
"""

from __future__ import annotations

import base64
import json
import os
import signal
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
import yaml

from grass.api.client import Client
from grass.kubernetes import rights
from grass.kubernetes.informer import Copy, GoneError
from grass.kubernetes.objects import POD_EVENT, PODS
from grass.model.reasons import ReasonCode
from grass.node_config import KubernetesConfig
from node.runtime.kubernetes.place import Place
from node.runtime.kubernetes.runtime import PodRuntime
from node.runtime.protocol import Listed
from tests.integration.test_kubernetes_node import Node, waits_for
from tests.support import kubernetes
from tests.support.engine import IMAGE
from tests.support.kubernetes import ANY
from tests.support.local_cluster import LocalCluster
from tests.support.pod_run import SETTINGS
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.alone, pytest.mark.timeout(500)]
SECONDS = 90.0
RUN = "echo $GRASS_TASK/$GRASS_ATTEMPT $HOSTNAME >>$GRASS_OUTPUT/ran; "
WORK = (
    "for i in 0 1 2 3 4 5 6 7 8 9; do echo line $i; sleep 0.5; done; "
    "echo over >>$GRASS_OUTPUT/over; exit $((GRASS_INDEX % 3))"
)
WAIT = "while [ ! -e $GRASS_OUTPUT/go ]; do sleep 0.1; done"


class Site:
    """A node whose claim is ``folder``."""

    def __init__(self, node: Node, folder: Path) -> None:
        self.node = node
        self.folder = folder

    def start(self, client: Client, name: str, command: str, replicas: int = 1) -> None:
        part = {"image": IMAGE, "command": RUN + command, "resources": {"cpu": 0.01, "memory": "16MiB"}}
        part |= {"runtime": "kubernetes", "replicas": replicas, "parallelism": 6, "grace": 1}
        client.start({"name": name, "components": {"t": part}})

    def output(self, client: Client, name: str) -> Path:
        return self.folder / "jobs" / client.job(name).id

    def ran(self, client: Client, name: str) -> list[str]:
        """Return the key of each attempt that began, as the attempts themselves say."""
        return sorted(line.split()[0] for line in (self.output(client, name) / "ran").read_text().splitlines())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("volumes") / "team"
    with (
        kubernetes.namespace() as (server, namespace),
        kubernetes.claim(server, namespace, "team", folder),
        LocalCluster().running() as cluster,
    ):
        node = Node(cluster, server, namespace)
        node.add("pods", "", "--claim", "team")
        yield Site(node, folder)


@pytest.fixture
def client(site: Site) -> Iterator[Client]:
    with site.node.cluster.client() as client:
        yield client
    site.node.cluster.stop_jobs()


def running(client: Client, name: str) -> int:
    return sum(each.state == "RUNNING" for each in client.tasks(name))


def assert_each_ran_once(site: Site, client: Client, name: str, tasks: int) -> None:
    found = client.tasks(name)
    assert [(each.index, each.exit_code, each.attempt) for each in found] == [(n, n % 3, 1) for n in range(tasks)]
    assert site.ran(client, name) == sorted(f"{name}.t.{n}/1" for n in range(tasks))
    lines: dict[str, list[str]] = {}
    for line in client.logs(name):
        lines.setdefault(line.task, []).append(line.text)
    assert lines == {f"t.{n}": [f"line {i}" for i in range(10)] for n in range(tasks)}


def test_tasks_run_once_while_the_api_server_and_etcd_are_killed_and_forget_what_changed(
    site: Site, client: Client
) -> None:
    name, tasks = "killed", 24
    site.start(client, name, WORK, tasks)
    output = site.output(client, name)
    begins(output)
    path, selector = f"{site.node.path}/pods", {"labelSelector": "app.kubernetes.io/managed-by=grass"}
    version = site.node.server.get(path, PODS, selector).metadata.resource_version
    with kubernetes.without("kube-apiserver"):
        kubernetes.compact()
        ends(output)
    with pytest.raises(GoneError):  # as the agent, whose watch goes on at this version
        watch = {**selector, "watch": "true", "resourceVersion": version, "timeoutSeconds": 5}
        for line in site.node.server.stream(path, watch, 10).lines():
            Copy(POD_EVENT).apply_line(line)
    for killed in (("etcd",), ("etcd", "kube-apiserver")):
        begins(output)
        with kubernetes.without(*killed):
            ends(output)
    assert client.wait(name, 240).state == "FAILED"
    assert_each_ran_once(site, client, name, tasks)


def test_an_agent_that_stands_still_while_another_one_acts_repeats_and_loses_nothing(
    site: Site, client: Client, tmp_path: Path
) -> None:
    name, tasks = "paused", 12
    site.start(client, name, WORK, tasks)
    begins(site.output(client, name))
    settings = Path(site.node.cluster.config.home) / "nodes" / "pods" / "cluster.json"
    cluster = json.loads(settings.read_text())["node"]["kubernetes"]["cluster_id"]
    place = Place(cluster, "pods", site.node.namespace, str(tmp_path / "second"), str(tmp_path / "jobs"))
    paused = site.node.agent()
    os.kill(paused, signal.SIGSTOP)
    try:
        with closing(PodRuntime(kubernetes.api(), place, SETTINGS)) as second:
            wait_until(lambda: any(isinstance(each, Listed) for each in second.receive()), 60, "the lease")
    finally:
        with suppress(ProcessLookupError):  # whoever watches over daemons may have ended it
            os.kill(paused, signal.SIGCONT)
    wait_until(lambda: site.node.agent() not in (0, paused), 30, "a new agent")
    assert client.wait(name, 240).state == "FAILED"
    assert_each_ran_once(site, client, name, tasks)


def test_a_pod_that_somebody_ends_begins_again_once(site: Site, client: Client) -> None:
    name = "taken"
    site.start(client, name, f"[ $GRASS_ATTEMPT != 1 ] || {WAIT}", 3)
    wait_until(lambda: running(client, name) == 3, SECONDS, "three tasks")
    pods = {each["metadata"]["annotations"]["grass-cluster.org/attempt"]: each for each in site.node.pods(name)}
    deleted, forced, evicted = (f"{site.node.path}/pods/{pods[key]['metadata']['name']}" for key in sorted(pods))
    site.node.server.delete(deleted, ANY, {"gracePeriodSeconds": 1})
    site.node.server.delete(forced, ANY, {"gracePeriodSeconds": 0})
    metadata = {"name": evicted.rpartition("/")[2], "namespace": site.node.namespace}
    body = {"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": metadata}
    site.node.server.post(f"{evicted}/eviction", {**body, "deleteOptions": {"gracePeriodSeconds": 1}}, ANY)
    assert client.wait(name, SECONDS).state == "SUCCEEDED"
    assert [(each.attempt, each.restarts) for each in client.tasks(name)] == [(2, 0)] * 3
    assert site.ran(client, name) == sorted(f"{name}.t.{n}/{attempt}" for n in range(3) for attempt in (1, 2))


def test_a_quota_that_is_lowered_ends_nothing_and_lets_nothing_more_begin(site: Site, client: Client) -> None:
    name, path = "lowered", f"{site.node.path}/resourcequotas"

    def limit(pods: int) -> None:
        site.node.server.patch(f"{path}/team", {"spec": {"hard": {"pods": str(pods)}}}, ANY)

    site.node.server.post(path, {"metadata": {"name": "team"}, "spec": {"hard": {"pods": "50"}}}, ANY)
    try:
        wait_until(lambda: site.node.server.get(f"{path}/team", ANY).get("status", {}).get("hard"), 30, "a quota")
        site.start(client, name, WAIT, 2)
        wait_until(lambda: running(client, name) == 2, SECONDS, "two tasks")
        limit(1)
        wait_until(lambda: site.node.server.get(f"{path}/team", ANY)["status"]["hard"]["pods"] == "1", 30, "one")
        site.start(client, "later", "true")
        assert "quota team of its namespace is used up" in waits_for(client, "later", ReasonCode.NAMESPACE_QUOTA)
        assert running(client, name) == 2
        (site.output(client, name) / "go").touch()
        assert client.wait(name, SECONDS).state == "SUCCEEDED"
        limit(50)
        assert client.wait("later", 90).state == "SUCCEEDED"
    finally:
        site.node.server.delete(f"{path}/team", ANY)
    assert site.ran(client, name) == [f"{name}.t.0/1", f"{name}.t.1/1"]
    assert site.ran(client, "later") == ["later.t.0/1"]


def test_a_token_that_is_revoked_stops_no_task_and_the_next_one_in_the_kubeconfig_is_used(
    site: Site, client: Client, tmp_path: Path
) -> None:
    kubeconfig, first = user(site.node, tmp_path)
    site.node.add("rotated", "", "--claim", "team", kubeconfig=kubeconfig)
    part = {"image": IMAGE, "command": RUN + WAIT, "runtime": "kubernetes", "avoid": ["pods"]}
    client.start({"name": "token", "components": {"t": {**part, "resources": {"cpu": 0.01, "memory": "16MiB"}}}})
    wait_until(lambda: running(client, "token"), SECONDS, "a task that runs")
    next_token = token_secret(site.node, "second")
    site.node.server.delete(f"{site.node.path}/secrets/{first}", ANY)
    wait_until(lambda: client.node("rotated").state != "READY", SECONDS, "trouble that is said")
    reason = client.node("rotated").reason
    assert reason is not None and "does not accept the credentials" in reason.message, reason
    (site.output(client, "token") / "go").touch()
    content = yaml.safe_load(kubeconfig.read_text())
    content["users"][0]["user"] = {"token": next_token}
    kubeconfig.write_text(yaml.safe_dump(content))
    assert client.wait("token", SECONDS).state == "SUCCEEDED"
    assert site.ran(client, "token") == ["token.t.0/1"]
    wait_until(lambda: client.node("rotated").state == "READY", SECONDS, "a node that is ready again")


def user(node: Node, folder: Path) -> tuple[Path, str]:
    """Return the kubeconfig of a user who has the Role of a plan, and the name of the Secret with its token."""
    base = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{node.namespace}"
    role, binding = rights.objects(KubernetesConfig(node.namespace, claim="team"))
    binding["subjects"] = [{"kind": "ServiceAccount", "name": "lab", "namespace": node.namespace}]
    node.server.post(f"{node.path}/serviceaccounts", {"metadata": {"name": "lab"}}, ANY)
    node.server.post(f"{base}/roles", role, ANY)
    node.server.post(f"{base}/rolebindings", binding, ANY)
    found = yaml.safe_load(kubernetes.KUBECONFIG.read_text())
    found["users"][0]["user"] = {"token": token_secret(node, "first")}
    kubeconfig = folder / "lab.kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(found))
    return kubeconfig, "first"


def token_secret(node: Node, name: str) -> str:
    """Make one more token of the user, which ends with its Secret. Return it."""
    metadata = {"name": name, "annotations": {"kubernetes.io/service-account.name": "lab"}}
    secret = {"metadata": metadata, "type": "kubernetes.io/service-account-token"}
    node.server.post(f"{node.path}/secrets", secret, ANY)
    path = f"{node.path}/secrets/{name}"
    wait_until(lambda: node.server.get(path, ANY).get("data", {}).get("token"), 20, "a token")
    return base64.b64decode(node.server.get(path, ANY)["data"]["token"]).decode()


def begins(output: Path) -> None:
    """Wait until one more task begins its work."""
    wait_for_line(output / "ran", "a task that begins its work")


def ends(output: Path) -> None:
    """Wait until one more task has done its work, whoever knows."""
    wait_for_line(output / "over", "a task that has done its work")


def wait_for_line(file: Path, what: str) -> None:
    before = file.stat().st_size if file.exists() else 0
    # kube-scheduler and the kubelet wait for up to 30 s each before they ask again a server that was away
    wait_until(lambda: file.exists() and file.stat().st_size > before, SECONDS, what)
