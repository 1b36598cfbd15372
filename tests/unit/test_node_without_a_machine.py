"""The node-agent's loop over a node that is no machine: no /proc, no disk, no devices, attempts without processes."""

from __future__ import annotations

import select
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from grass.model.reasons import Reason, ReasonCode
from grass.node_config import NodeHome
from grass.store.backend import Op
from grass.store.keys import Keys
from grass.store.node_store import NodeStore
from grass.wire.codec import encode
from grass.wire.desired import DesiredAttempt, DesiredChange
from grass.wire.heartbeat import Heartbeat
from grass.wire.hello import Hello
from grass.wire.offer_report import OfferReport
from grass.wire.reports import REPORT
from grass.wire.task_events import Ended, Started, TaskEvent, TaskEvents, Waiting
from node.agent.inbox import Inbox, Shipped
from node.agent.loop import HOLD, NodeAgent
from node.agent.shipper import Shipper
from node.membership.service import Service
from node.runtime.protocol import Launch, Start
from tests.doubles.memory_backend import MemoryBackend
from tests.doubles.simulated_runtime import SimulatedRuntime
from tests.support.shepherd_run import cluster_config
from tests.support.simulated_machine import VERSION, SimulatedMachine
from tests.support.templates import template
from tests.support.waiting import wait_until

KEYS = Keys("grass:test:")
USED = 4000
"""A port of another program."""
E = TypeVar("E", Started, Waiting, Ended)


class Runtime(SimulatedRuntime):
    """Notes what it got. Attempts of ``long`` do not obey TERM, those of ``well`` end with 0."""

    def __init__(self) -> None:
        super().__init__(self._life, obstinate=lambda start: start.launch == "j-1/long")
        self.launches: dict[str, Launch] = {}
        self.started: dict[str, Start] = {}

    def define(self, launches: dict[str, Launch]) -> None:
        self.launches.update(launches)
        super().define(launches)

    def _life(self, start: Start) -> tuple[float, int]:
        self.started[start.key] = start
        return (100.0, 0) if start.launch == "j-1/long" else (0.05, 0 if start.launch == "j-1/well" else 3)


class Node:
    """A loop in a thread. The test is its master."""

    def __init__(
        self, config: NodeHome, backend: MemoryBackend, runtime: Runtime | None = None, hold: float = HOLD
    ) -> None:
        self.backend = backend
        self.inbox = Inbox()
        self.machine = SimulatedMachine(self.inbox.wake, [USED], {"j-1/long.1/1"})
        self.runtime = runtime or Runtime()
        store, service = (
            NodeStore(self.backend, KEYS, config.node.name),
            Service(config, None, self.inbox.left, self.inbox.done),
        )
        shipper = Shipper(config, on_complete=self.inbox.shipped)
        self.agent = NodeAgent(config, store, self.runtime, self.machine, shipper, service, self.inbox, hold=hold)
        self.thread = threading.Thread(target=self.agent.run)
        self.name = config.node.name
        self.hellos: list[Hello] = []
        self.offers: list[OfferReport] = []
        self.beats: list[Heartbeat] = []
        self.events: list[TaskEvent] = []
        self._changes = 0

    @contextmanager
    def running(self) -> Iterator[Node]:
        self.thread.start()
        yield self
        self.agent.stop()
        self.thread.join(10)
        assert not self.thread.is_alive()

    def change(self, change: DesiredChange) -> None:
        self._changes += 1
        ops: list[Op] = [("HSET", KEYS.launch(self.name), key, encode(value)) for key, value in change.launch.items()]
        ops += [("HSET", KEYS.desired(self.name), key, encode(value)) for key, value in change.set.items()]
        ops += [("HDEL", KEYS.desired(self.name), *change.remove)] if change.remove else []
        number = str(self._changes)
        self.backend.apply([*ops, ("XADD", KEYS.changes(self.name), 100, "number", number, "body", encode(change))])

    def start(self, component: str, index: int = 0, **ports: int) -> str:
        made = template(job_id="j-1", job="j", name=component, replicas=2, grace=0.0, command="true")
        key = f"j-1/{component}.{index}/1"
        self.change(DesiredChange(launch={f"j-1/{component}": made}, set={key: DesiredAttempt(1, ports=ports)}))
        return key

    def take(self) -> None:
        stream = KEYS.reports(self.name)
        entries = self.backend.stream(stream, "0-0", 1000)
        for _, fields in entries:
            match REPORT.decode(fields["body"]):
                case Hello() as hello:
                    self.hellos.append(hello)
                case OfferReport() as offer:
                    self.offers.append(offer)
                case Heartbeat() as heartbeat:
                    self.beats.append(heartbeat)
                case TaskEvents(events):
                    self.events += events
        if entries:
            self.backend.apply([("XDEL", stream, *[number for number, _ in entries])])

    def wait(self, condition: Callable[[], object]) -> None:
        def seen() -> bool:
            self.take()
            return bool(condition())

        wait_until(seen)

    def event(self, key: str, kind: type[E]) -> E:
        found: list[E] = []

        def seen() -> bool:
            found.extend(each for each in self.events if isinstance(each, kind) and each.key == key)
            return bool(found)

        self.wait(seen)
        return found[0]


@pytest.fixture
def config(tmp_path: Path) -> NodeHome:
    return cluster_config(tmp_path)


@pytest.fixture
def node(config: NodeHome) -> Iterator[Node]:
    with Node(config, MemoryBackend()).running() as made:
        yield made


def test_what_a_node_offers_is_told_again_when_it_has_changed(node: Node) -> None:
    node.wait(lambda: node.hellos)
    for cores in (4, 2, 6):
        node.machine.cores = cores
        for _ in range(2):  # what is the same is told once
            node.inbox.offers()
        node.wait(lambda: node.offers and node.offers[-1].resources.cpu == node.machine.cores * 1000)
    assert [each.resources.cpu for each in node.offers] == [4000, 2000, 6000] and len(node.hellos) == 1


def test_it_says_hello_for_what_it_runs_on_and_its_attempts_start_end_and_are_forgotten(node: Node) -> None:
    node.wait(lambda: node.hellos and node.beats)
    assert (node.hellos[0].resources.cpu, node.hellos[0].labels) == (4000, {"kind": "namespace"})
    assert (node.beats[0].usage.cpu, node.beats[0].programs) == (50.0, ("mpirun",))
    key = node.start("short")
    started, ended = node.event(key, Started), node.event(key, Ended)
    assert started.software == ended.software == {"grass": VERSION}
    assert ended.code == 3 and ended.usage is not None and ended.usage.cpu == 1.0
    assert node.machine.known == {key}
    node.change(DesiredChange(remove=(key,)))
    node.wait(lambda: not node.machine.known)


def test_nothing_starts_on_it_while_it_has_a_condition(node: Node) -> None:
    node.wait(lambda: node.hellos)
    node.machine.turn(Reason(ReasonCode.RUNTIME, "the namespace does not answer"))
    node.wait(lambda: node.beats and node.beats[-1].conditions)
    key = node.start("short")
    waiting = node.event(key, Waiting)
    assert waiting.reason is not None and waiting.reason.message.endswith("the namespace does not answer")
    assert not [each for each in node.events if isinstance(each, Started)]
    node.machine.turn()
    assert node.event(key, Ended).code == 3


def test_a_node_that_starts_with_a_condition_says_so_in_its_hello(config: NodeHome) -> None:
    away = Reason(ReasonCode.RUNTIME, "the namespace does not answer")
    node = Node(config, MemoryBackend())
    node.machine.turn(away)
    with node.running():
        node.wait(lambda: node.hellos)
    assert node.hellos[0].conditions == (away,)


def test_news_wakes_the_loop_at_once() -> None:
    inbox = Inbox()
    assert select.select([inbox], [], [], 0)[0] == []
    inbox.shipped("j-1/c.0/1")
    assert select.select([inbox], [], [], 0)[0] == [inbox]
    inbox.rest()
    assert select.select([inbox], [], [], 0)[0] == []
    assert [*inbox.drain()] == [Shipped("j-1/c.0/1")] and [*inbox.drain()] == []


def test_it_decides_which_ports_are_taken_and_which_attempts_cannot_end(node: Node) -> None:
    taken = node.event(node.start("short", port=USED), Ended).reason
    assert taken is not None and taken.code is ReasonCode.PORT_TAKEN
    node.event(node.start("long", 1), Started)
    node.change(DesiredChange(set={"j-1/long.1/1": DesiredAttempt(1, stop_grace=100.0)}))
    assert node.event("j-1/long.1/1", Waiting).reason == Reason(ReasonCode.STUCK, "it is stuck")
    node.wait(lambda: node.beats[-1].conditions == (Reason(ReasonCode.STUCK, "it is stuck"),))


def test_attempts_inherit_what_it_says_and_see_no_gpus_of_where_the_agent_runs(node: Node) -> None:
    key = node.start("short")
    node.event(key, Started)
    assert node.runtime.launches["j-1/short"].env["PATH"] == "/bin"
    assert "CUDA_VISIBLE_DEVICES" not in node.runtime.started[key].env


def test_what_an_attempt_may_have_lost_is_the_reason_of_its_success(node: Node) -> None:
    node.machine.lost = Reason(ReasonCode.SHARE, "the share was away")
    assert node.event(node.start("short"), Ended).reason is None
    assert node.event(node.start("well"), Ended).reason == node.machine.lost


def test_it_learns_what_the_runtime_still_has(node: Node) -> None:
    key = node.start("long")
    node.event(key, Started)
    node.machine.known.add("j-1/gone.0/1")
    node.runtime.restart()
    node.wait(lambda: node.machine.known == {key})


def test_a_process_may_have_several_nodes(config: NodeHome) -> None:
    backend, share = MemoryBackend(), str(config.data_dir)
    one, two = (
        replace(config, node=replace(config.node, name=name), home=f"{config.home}/{name}", share=share)
        for name in ("n1", "n2")
    )
    with Node(one, backend).running() as first, Node(two, backend).running() as second:
        first.wait(lambda: first.hellos)
        second.wait(lambda: second.hellos)
        keys = first.start("short", 0), second.start("short", 1)
        assert [first.event(keys[0], Ended).code, second.event(keys[1], Ended).code] == [3, 3]
        assert (first.machine.known, second.machine.known) == ({keys[0]}, {keys[1]})


def test_the_runtime_is_told_of_which_tasks_it_keeps_nothing(node: Node) -> None:
    node.event(node.start("short"), Ended)
    node.change(DesiredChange(let_go=("j-1/short.0",)))
    node.wait(lambda: node.runtime.gone == ["j-1/short.0"])
