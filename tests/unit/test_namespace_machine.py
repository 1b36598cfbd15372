"""How large a node is that is a namespace of Kubernetes: on a double of the API server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from grass.node_config import KubernetesConfig, NodeConfig, NodeHome
from node.agent.hello import hello
from node.agent.namespace import Namespace
from tests.doubles.kubernetes_api import KubernetesApi, RefusalError, kubernetes_api
from tests.support.waiting import wait_until

QUOTAS = "/api/v1/namespaces/lab/resourcequotas"
MACHINES = "/api/v1/nodes"
CLOSED = {("list", "nodes")}
"""The right to list machines is not given."""


def quota(cpu: str) -> dict[str, object]:
    return {"spec": {"hard": {"limits.cpu": cpu, "limits.memory": "8Gi"}}}


@pytest.fixture
def server() -> Iterator[KubernetesApi]:
    with kubernetes_api() as made:
        made.denied = CLOSED
        yield made


class Looked:
    """A namespace that is looked at all the time. ``changes``: set when it offers something else."""

    def __init__(self, server: KubernetesApi, folder: Path, node: NodeConfig) -> None:
        settings = KubernetesConfig("lab")
        self.config = NodeHome("lab", "local", str(folder), str(folder), node=node)
        self.changes = threading.Event()
        self.machine = Namespace(self.config, settings, server.api(), self.changes.set, every=0.05)
        assert self.machine.look().passed
        self.machine.start({})

    def cores(self) -> float:
        return hello(self.config.node, self.machine.offer()).resources.cpu / 1000


def test_a_quota_that_is_lowered_or_raised_changes_how_large_the_node_is(server: KubernetesApi, tmp_path: Path) -> None:
    server.tell(QUOTAS, "team", quota("4"))
    node = NodeConfig(name="pods", cpu=6000, kubernetes=KubernetesConfig("lab"))
    looked = Looked(server, tmp_path, node)
    assert looked.cores() == 4
    for limit, cores in (("2500m", 2.5), ("5", 5), ("8", 6)):  # the user says that it is at most 6
        looked.changes.clear()
        found = server.objects[f"{QUOTAS}/team"]
        server.objects[f"{QUOTAS}/team"] = {**found, **quota(limit)}
        assert looked.changes.wait(10)
        assert looked.cores() == cores
    looked.machine.stop()


def test_a_node_stays_as_large_as_it_was_while_its_quotas_cannot_be_read(server: KubernetesApi, tmp_path: Path) -> None:
    def refuse(asked: object) -> None:
        refused.set()
        raise RefusalError(403, "Forbidden", "cannot list resourcequotas")

    refused = threading.Event()
    server.tell(QUOTAS, "team", quota("4"))
    looked = Looked(server, tmp_path, NodeConfig(name="pods", kubernetes=KubernetesConfig("lab")))
    server.refuse = refuse
    assert refused.wait(10)
    seen = len(server.asked)
    wait_until(lambda: len(server.asked) > seen + 2)
    assert looked.cores() == 4 and not looked.changes.is_set()
    looked.machine.stop()


def machine(cpu: str) -> dict[str, object]:
    return {"status": {"allocatable": {"cpu": cpu, "memory": "16Gi"}}}


def test_machines_that_come_and_a_right_that_is_given_and_taken_change_what_a_node_offers(
    server: KubernetesApi, tmp_path: Path
) -> None:
    def offers(cores: int, *names: str) -> bool:
        seen = looked.machine.machines()
        return looked.cores() == cores and [each.name for each in (seen.machines if seen else ())] == list(names)

    server.tell(MACHINES, "m1", machine("8"))
    looked = Looked(server, tmp_path, NodeConfig(name="pods", kubernetes=KubernetesConfig("lab")))
    assert offers(0)
    server.denied = set()
    wait_until(lambda: offers(8, "m1"))
    looked.changes.clear()
    server.tell(MACHINES, "m2", machine("4"))
    assert looked.changes.wait(10) and offers(12, "m1", "m2")
    server.tell(QUOTAS, "team", quota("4"))
    wait_until(lambda: offers(4, "m1", "m2"))
    server.denied = CLOSED
    wait_until(lambda: offers(4))
    assert looked.machine.machines() is None
    looked.machine.stop()
