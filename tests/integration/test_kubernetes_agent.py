"""Who may act in a namespace of Kubernetes, and what an agent says when it may not: on a real 1.20."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grass.kubernetes import names, rights
from grass.kubernetes.api import ApiServer
from grass.kubernetes.credentials import Credential, Credentials, Login
from grass.kubernetes.objects import Pod
from grass.kubernetes.trial import machines
from grass.model.reasons import Reason, ReasonCode
from grass.node_config import KubernetesConfig, NodeConfig, NodeHome
from grass.provision.namespace_findings import namespace_findings
from grass.provision.provisioner import Finding
from grass.wire.codec import Form
from node.agent.namespace import Namespace as Machine
from node.runtime.kubernetes.attempt import PodAttempt
from node.runtime.kubernetes.claim import Times
from node.runtime.kubernetes.events import EventLooks
from node.runtime.kubernetes.place import Place
from node.runtime.kubernetes.runtime import PodRuntime
from node.runtime.protocol import Listed, Observed, Start, Waiting
from node.runtime.reactor import Reactor
from tests.support import kubernetes
from tests.support.engine import IMAGE
from tests.support.kubernetes import ANY, exists
from tests.support.pod_agent import CLUSTER, LAUNCH, TIMES
from tests.support.pod_run import SETTINGS
from tests.support.waiting import wait_until

Namespace = tuple[ApiServer, str]
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces"


@pytest.fixture(scope="module")
def shared() -> Iterator[Namespace]:
    """A namespace for all tests that leave it as it was."""
    with kubernetes.namespace() as made:
        yield made


class Agent:
    """A runtime, and what it has told."""

    def __init__(self, api: ApiServer, place: Place, times: Times) -> None:
        self.runtime = PodRuntime(api, place, SETTINGS, times)
        self.place = place
        self.listed = self.closed = False
        self.known: dict[str, Observed] = {}
        self.waiting: dict[str, Reason] = {}

    def close(self) -> None:
        if not self.closed:
            self.runtime.close()
        self.closed = True

    def start(self, key: str) -> None:
        self.runtime.define({"slow": LAUNCH})
        self.runtime.start([Start(key, "slow", {})])

    def wait(self, condition: Callable[[], object], seconds: float = 20.0) -> None:
        def met() -> object:
            for event in self.runtime.receive():
                if isinstance(event, Listed):
                    self.listed = True
                    self.known |= {each.key: each for each in event.attempts}
                elif isinstance(event, Observed):
                    self.known[event.key] = event
                elif isinstance(event, Waiting):
                    self.waiting[event.key] = event.reason
            return condition()

        wait_until(met, seconds)

    def runs(self, key: str) -> bool:
        return key in self.known and self.known[key].since is not None

    def trouble(self) -> str:
        return str(self.runtime.trouble() or "")


@contextmanager
def agents(api: Callable[[], ApiServer], times: Times = TIMES) -> Iterator[Callable[[Place], Agent]]:
    with ExitStack() as stack:

        def make(place: Place) -> Agent:
            made = Agent(api(), place, times)
            stack.callback(made.close)
            return made

        yield make


def has_pod(server: ApiServer, where: Place, key: str) -> bool:
    return exists(server, f"{where.path}/{names.pod_name(where.cluster, key)}")


def place(namespace: str, folder: Path, cluster: str = "c1") -> Place:
    return Place(cluster, "n1", namespace, str(folder), str(folder / "jobs"))


@pytest.mark.nightly
def test_two_clusters_share_a_namespace_and_two_agents_of_one_node_do_not(shared: Namespace, tmp_path: Path) -> None:
    server, namespace = shared
    with agents(kubernetes.api, Times()) as make:
        one = make(place(namespace, tmp_path / "one"))
        other = make(place(namespace, tmp_path / "other", cluster="c2"))
        for each in (one, other):
            each.wait(lambda each=each: each.listed)
            each.start("j-1/slow.0/1")
        for each in (one, other):
            each.wait(lambda each=each: has_pod(server, each.place, "j-1/slow.0/1"))
            assert not each.runtime.trouble()
        second = make(place(namespace, tmp_path / "second"))
        second.wait(second.trouble)
        assert "another agent" in second.trouble() and "acts for node n1" in second.trouble()
        in_its_folder = make(place(namespace, tmp_path / "one"))
        in_its_folder.wait(in_its_folder.trouble)
        assert f"another agent in {tmp_path / 'one'}" in in_its_folder.trouble()
        second.wait(lambda: True)
        assert not second.listed and not second.known
        one.close()  # releases the lease
        second.wait(lambda: second.listed and "j-1/slow.0/1" in second.known, seconds=10.0)
        second.wait(lambda: not second.trouble())


@pytest.mark.nightly
def test_an_agent_that_was_overtaken_while_it_stood_still_changes_nothing_and_ends(
    shared: Namespace, tmp_path: Path
) -> None:
    server, namespace = shared
    with closing(kubernetes.gateway()) as gateway, agents(kubernetes.api) as make:
        program = [sys.executable, "-m", "tests.support.pod_agent", gateway.credentials.server, namespace]
        paused = subprocess.Popen(
            [*program, str(tmp_path / "paused")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            assert paused.stdout is not None and paused.stdout.readline() == b"listed\n"
            paused.send_signal(signal.SIGSTOP)
            before = len(gateway.asked)
            second = make(place(namespace, tmp_path / "second", CLUSTER))
            second.wait(second.trouble)
            second.wait(lambda: second.listed)
            assert paused.stdin is not None
            paused.stdin.write(b"j-2/slow.0/1\n")
            paused.stdin.flush()
            paused.send_signal(signal.SIGCONT)
            _, log = paused.communicate(timeout=20)
        finally:
            paused.kill()
        assert paused.returncode == 70 and b"another agent" in log
        assert [each for each in gateway.asked[before:] if each.method != "GET" and "/pods" in each.path] == []
        assert not has_pod(server, second.place, "j-2/slow.0/1")


@pytest.mark.nightly
def test_a_namespace_that_is_deleted_ends_its_tasks_uncharged_and_goes(tmp_path: Path) -> None:
    with kubernetes.namespace() as (server, namespace), agents(kubernetes.api) as make:
        agent = make(place(namespace, tmp_path))
        agent.wait(lambda: agent.listed)
        agent.start("j-1/slow.0/1")
        agent.wait(lambda: agent.runs("j-1/slow.0/1"))
        server.delete(f"/api/v1/namespaces/{namespace}", ANY)
        agent.start("j-1/slow.1/1")
        agent.wait(lambda: "its namespace is being deleted" in agent.trouble())
        agent.wait(lambda: "j-1/slow.1/1" in agent.known)
        # Kubernetes deletes what is in it at 20 requests a second, of all namespaces together
        agent.wait(lambda: agent.known["j-1/slow.0/1"].ended, seconds=45.0)
        for each in agent.known.values():
            assert each.reason is not None and each.reason.code is ReasonCode.EVICTED and each.code is None
        agent.runtime.forget(list(agent.known))
        agent.wait(lambda: server.get(agent.place.path, ANY)["items"] == [])


@pytest.mark.nightly
def test_a_pod_that_is_deleted_by_force_has_ended_once_its_machine_has_no_container_of_it(
    shared: Namespace, tmp_path: Path
) -> None:
    server, namespace = shared
    with agents(kubernetes.api) as make:
        agent = make(place(namespace, tmp_path))
        agent.wait(lambda: agent.listed)
        agent.start("j-3/slow.0/1")
        agent.wait(lambda: agent.runs("j-3/slow.0/1"), 60.0)
        path = f"{agent.place.path}/{names.pod_name(agent.place.cluster, 'j-3/slow.0/1')}"
        server.delete(path, ANY, {"gracePeriodSeconds": 0})
        agent.wait(lambda: agent.known["j-3/slow.0/1"].ended)  # a machine that says nothing has 30 s
        [reason] = [each.reason for each in agent.known.values() if each.key == "j-3/slow.0/1"]
        assert reason == Reason(ReasonCode.EVICTED, "its pod was deleted by somebody else")
        agent.runtime.forget(["j-3/slow.0/1"])


@contextmanager
def user(server: ApiServer, namespace: str) -> Iterator[Callable[[], ApiServer]]:
    """Make a user with exactly the rights of Grass's Role."""
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    server.post(account, {"metadata": {"name": "lab"}}, ANY)
    token = server.post(f"{account}/lab/token", {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}, ANY)
    admin = Login(str(kubernetes.KUBECONFIG)).read()
    mine = Credentials(admin.server, ca=admin.ca, token=token["status"]["token"])
    server.post(f"{RBAC}/{namespace}/roles", rights.objects(KubernetesConfig(namespace))[0], ANY)
    binding = {
        "metadata": {"name": "grass"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "grass"},
        "subjects": [{"kind": "ServiceAccount", "name": "lab", "namespace": namespace}],
    }
    server.post(f"{RBAC}/{namespace}/rolebindings", binding, ANY)
    with closing(ApiServer(Credential(lambda: mine))) as api:
        wait_until(lambda: rights.missing(api, KubernetesConfig(namespace)) == [])
    yield lambda: ApiServer(Credential(lambda: mine))


def without(role: dict[str, Any], resource: str, verb: str) -> dict[str, Any]:
    rules = [
        {**each, "verbs": [one for one in each["verbs"] if one != verb or each["resources"] != [resource]]}
        for each in role["rules"]
    ]
    return {**role, "rules": rules}


@pytest.mark.nightly
def test_machines_are_seen_with_a_right_that_nothing_needs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cluster = RBAC.removesuffix("/namespaces")
    with (
        kubernetes.namespace() as (server, namespace),
        user(server, namespace) as api,
        closing(api()) as mine,
        caplog.at_level("INFO"),
    ):
        settings = KubernetesConfig(namespace)
        node = NodeConfig(name="n1", cpu=1000, memory=1 << 30, kubernetes=settings)
        config = NodeHome("c", "local", str(tmp_path), str(tmp_path), node=node)
        machine = Machine(config, settings, mine, lambda: None)
        assert machine.look().passed and machine.machines() is None
        assert [each for each in caplog.records if each.name.startswith("node.")] == []
        role, binding = rights.optional_objects(namespace)
        subject = {"kind": "ServiceAccount", "name": "lab", "namespace": namespace}
        server.post(f"{cluster}/clusterroles", role, ANY)
        server.post(f"{cluster}/clusterrolebindings", {**binding, "subjects": [subject]}, ANY)
        try:
            wait_until(lambda: machines(mine, settings) is not None, 10, "the right")
            assert machine.look().passed
            seen = machine.machines()
            assert seen is not None and "real1" in [each.name for each in seen.machines]
            assert machine.offer().resources.cpu == 1000
        finally:
            for kind in ("clusterrolebindings", "clusterroles"):
                server.delete(f"{cluster}/{kind}/{namespace}", ANY)


@pytest.mark.nightly
def test_a_right_that_is_taken_away_is_named_and_no_task_fails_for_it(tmp_path: Path) -> None:
    with (
        kubernetes.namespace() as (server, namespace),
        user(server, namespace) as api,
        agents(api) as make,
    ):
        agent = make(place(namespace, tmp_path))
        agent.wait(lambda: agent.listed)
        role = rights.objects(KubernetesConfig(namespace))[0]
        path = f"{RBAC}/{namespace}/roles/grass"
        server.put(path, without(role, "pods", "create"), ANY)
        with closing(api()) as mine:
            wait_until(lambda: rights.missing(mine, KubernetesConfig(namespace)))
        agent.start("j-1/slow.0/1")
        agent.wait(lambda: 'cannot create resource "pods"' in agent.trouble())
        assert agent.waiting["j-1/slow.0/1"].code is ReasonCode.RUNTIME
        server.put(path, role, ANY)
        agent.wait(lambda: has_pod(server, agent.place, "j-1/slow.0/1"))
        agent.wait(lambda: not agent.runtime.trouble())
        assert not agent.known  # it has not ended meanwhile


@pytest.mark.nightly
def test_a_missing_secret_is_told_from_the_events_of_a_pod(shared: Namespace, tmp_path: Path) -> None:
    server, namespace = shared
    # on a machine that does not exist; the event is one of a real kubelet, which may leave some out when it is busy
    spec = {
        "nodeName": "nowhere",
        "containers": [{"name": "task", "image": IMAGE}],
        "automountServiceAccountToken": False,
    }
    where = place(namespace, tmp_path)
    made = server.post(where.path, {"metadata": {"name": "stuck"}, "spec": spec}, Form(Pod))
    event = {
        "metadata": {"name": "stuck.1"},
        "involvedObject": {"kind": "Pod", "namespace": namespace, "name": "stuck", "uid": made.metadata.uid},
        "type": "Warning",
        "reason": "FailedMount",
        "message": 'MountVolume.SetUp failed for volume "keys" : secret "wandb" not found',
        "lastTimestamp": made.metadata.creation_timestamp,
    }
    server.post(f"/api/v1/namespaces/{namespace}/events", event, ANY)
    attempt = PodAttempt("j-1/a.0/1", "a", "stuck")
    attempt.update(made, server.wall())
    heard: list[PodAttempt] = []
    with closing(Reactor()) as reactor:
        EventLooks(server, where, reactor, heard.append, after=0.0).watch(attempt)
        wait_until(lambda: reactor.turn() or heard)
        reactor.end_work(1.0)
    assert attempt.heard is not None
    assert attempt.heard.reason.message.startswith("its pod waits for the Secret wandb, which its namespace")


@pytest.mark.nightly
def test_the_doctor_finds_what_is_wrong_in_a_namespace(tmp_path: Path) -> None:
    with kubernetes.namespace() as (server, namespace):
        settings = KubernetesConfig(namespace, cluster_id="c1", kubeconfig=str(kubernetes.KUBECONFIG))
        node = NodeConfig(name="n1", kubernetes=settings)

        def findings(of: NodeConfig = node) -> list[Finding]:
            return list(namespace_findings([of]))

        [well] = findings()
        assert well.ok and "Kubernetes v1.20" in well.message and namespace in well.name
        assert "its machines are seen" in well.message
        quota = {"metadata": {"name": "team"}, "spec": {"hard": {"count/configmaps": "1", "pods": "10"}}}
        server.post(f"/api/v1/namespaces/{namespace}/resourcequotas", quota, ANY)
        left: dict[str, Any] = {
            "name": "g-left",
            "finalizers": [names.FINALIZER],
            "labels": names.node_labels("old", "n1"),
        }
        own = {"name": "g-own", "finalizers": [names.FINALIZER], "labels": names.node_labels("c1", "n1")}
        container = {"name": "task", "image": IMAGE, "imagePullPolicy": "Never"}
        for metadata in (left, own):
            path = f"/api/v1/namespaces/{namespace}/pods"
            server.post(path, {"metadata": metadata, "spec": {"containers": [container]}}, ANY)
        quotas = f"/api/v1/namespaces/{namespace}/resourcequotas/team"
        wait_until(lambda: "count/configmaps" in server.get(quotas, ANY)["status"].get("used", {}))
        found = findings()
        assert any("quota team is used up: count/configmaps 1 of 1" in each.message for each in found)
        [bad] = [each for each in found if not each.ok]
        assert "g-left" in bad.message and "g-own" not in bad.message and "kubectl" in bad.fix
        lease = {"metadata": {"name": names.lease_name(left["labels"])}, "spec": {"holderIdentity": "x"}}
        server.post(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases", lease, ANY)
        assert all(each.ok for each in findings())
        [gone] = [each for each in findings(replace(node, kubernetes=replace(settings, context="no"))) if not each.ok]
        assert "no" in gone.message
        nowhere = findings(replace(node, kubernetes=replace(settings, namespace="no-such-namespace")))
        assert any(not each.ok and "no-such-namespace" in each.message for each in nowhere)
