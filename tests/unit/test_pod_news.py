"""What the agent of a namespace tells its pods, and the master, when addresses and memberships change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from grass.model.framework import Framework, FrameworkName
from grass.model.runtime import RuntimeName
from grass.node_config import KubernetesConfig
from grass.wire.desired import DesiredAttempt, DesiredChange
from grass.wire.membership import MEMBERSHIP, Member, Membership
from grass.wire.task_events import Ended, Located
from node.runtime.protocol import Observed, Start
from tests.doubles.memory_backend import MemoryBackend
from tests.support.shepherd_run import cluster_config
from tests.support.templates import template
from tests.unit.test_node_without_a_machine import Node, Runtime

KEYS = "j-1/w.0/1", "j-1/w.1/1"
FILE = "components/w/membership.json"


class Pods(Runtime):
    """Its attempts do not begin: only their pods are there. ``given``: all starts, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[Start] = []

    def start(self, starts: list[Start]) -> None:
        self.given += starts

    def show(self, key: str, address: str, *, ended: bool = False) -> None:
        end = 1.0 if ended else None
        self._tell(Observed(key, None, None, None, False, end, 3 if ended else None, None, None, None, address=address))

    def newest(self, key: str) -> Start:
        return next(each for each in reversed(self.given) if each.key == key)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    config = cluster_config(tmp_path)
    settings = replace(config.node, runtimes=("kubernetes",), kubernetes=KubernetesConfig("lab", image="i"))
    made = Node(replace(config, node=settings), MemoryBackend(), Pods())
    with made.running():
        made.wait(lambda: made.hellos)
        yield made


def membership(generation: int, *addresses: str) -> Membership:
    members = tuple(Member(f"w.{rank}", 1, "ns", address, 1, rank) for rank, address in enumerate(addresses))
    return Membership(generation, 1, len(members), 1, 8, 1, members)


def pods_of(node: Node) -> Pods:
    assert isinstance(node.runtime, Pods)
    return node.runtime


def begin(node: Node, name: FrameworkName) -> Pods:
    component = template(job_id="j-1", job="j", framework=Framework(name), runtime=RuntimeName.KUBERNETES)
    wanted = {key: DesiredAttempt(seq) for seq, key in enumerate(KEYS)}
    node.change(DesiredChange({"j-1/w": component}, wanted, membership={"j-1/w": membership(1, "", "")}))
    pods = pods_of(node)
    node.wait(lambda: len(pods.given) == 2)
    return pods


def test_a_task_begins_once_its_master_knows_all_addresses(node: Node) -> None:
    pods = begin(node, FrameworkName.TORCH)
    assert pods.newest(KEYS[1]).awaits == "its pod has no address yet"
    pods.show(KEYS[1], "10.9.0.2")
    node.wait(lambda: Located(KEYS[1], "10.9.0.2") in node.events)
    node.wait(lambda: pods.newest(KEYS[1]).awaits == "its pod waits for the addresses of w.0, w.1")
    node.change(DesiredChange(membership={"j-1/w": membership(2, "10.9.0.1", "10.9.0.2")}))
    node.wait(lambda: not pods.newest(KEYS[1]).awaits)
    assert pods.newest(KEYS[1]).late["MASTER_ADDR"] == "10.9.0.1"
    assert MEMBERSHIP.decode(pods.launches["j-1/w"].files[FILE]).generation == 2
    assert pods.newest(KEYS[0]).awaits == "its pod has no address yet"


def test_an_address_is_reported_once_and_another_one_again(node: Node) -> None:
    pods = begin(node, FrameworkName.TORCH)
    for address in ("10.9.0.1", "10.9.0.1", "10.9.0.5"):
        pods.show(KEYS[0], address)
    pods.show(KEYS[0], "10.9.0.5", ended=True)
    node.event(KEYS[0], Ended)
    found = [each.address for each in node.events if isinstance(each, Located)]
    assert found == ["10.9.0.1", "10.9.0.5"]


def test_addresses_of_other_components_reach_the_pods(node: Node) -> None:
    pods = begin(node, FrameworkName.TORCH)
    node.change(DesiredChange(addresses={"j-1": "j.s.0 10.9.0.9 4000 p\n"}))
    node.wait(lambda: pods.launches["j-1/w"].files.get("addresses") == "j.s.0 10.9.0.9 4000 p\n")
