"""Many nodes in one process: the node protocol over a real redis, with attempts that only a clock runs.

What one node-agent does with its orders is done by its own code (``Reconciliation``, ``SimulatedRuntime``,
``NodeStore``); what differs is that one connection serves all nodes, so reports of several travel in one step.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from grass import __version__
from grass.errors import UnreachableError
from grass.model.resources import Resources
from grass.store.backend import Entry, Guard, Op
from grass.store.keys import Keys
from grass.store.node_store import NodeStore
from grass.store.redis_backend import RedisBackend
from grass.system import clock
from grass.wire.desired import DESIRED_CHANGE, DesiredChange
from grass.wire.heartbeat import Heartbeat, Network, NodeUsage
from grass.wire.hello import Hello, Probe
from grass.wire.membership import MEMBERSHIP
from grass.wire.task_events import Ended, Started, TaskEvent, TaskEvents
from grass.wire.version import PROTOCOL, REVISION
from node.agent.reconcile import Reconciliation, launch_key
from node.runtime.protocol import Launch, Observed, Start, Stop
from tests.doubles.simulated_runtime import SimulatedRuntime

HEARTBEAT = 2.0
LONGEST_WAIT = 0.05


class Outbox:
    """Takes what the nodes report, and sends it in one step."""

    def __init__(self, backend: RedisBackend) -> None:
        self._backend = backend
        self._ops: list[Op] = []

    def apply(self, ops: list[Op], guards: list[Guard] | None = None, *, urgent: bool | None = None) -> int:
        self._ops += ops
        return 0

    def append(self, ops: list[Op], hints: Sequence[Op] = (), *, urgent: bool = True) -> None:
        self._ops += [*ops, *hints]

    def newest(self, key: str) -> Entry | None:
        return self._backend.newest(key)

    def flush(self) -> None:
        if self._ops:
            self._backend.apply(self._ops)
        self._ops = []


class FleetNode:
    def __init__(self, name: str, number: int, store: NodeStore, cpu: int, life: Callable[[Start], tuple[float, int]]):
        self.name = name
        self.store = store
        self.heard = True
        self.generations: dict[str, int] = {}
        """Launch key → generation of its membership."""
        self._resources = Resources(cpu=cpu * 1000, memory=64 << 30)
        self._address = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
        self._runtime = SimulatedRuntime(life)
        self._reconciliation = Reconciliation()
        self._reconciliation.reset({}, {})
        self._reconciliation.listed([])
        self._runtime.receive()

    def hello(self) -> None:
        self.store.report([self.greeting()])

    def greeting(self) -> Hello:
        return Hello(
            protocol=PROTOCOL,
            revision=REVISION,
            version=__version__,
            boot_id="bench",
            address=self._address,
            api_port=1,
            resources=self._resources,
            labels={"arch": "x86_64", "hostname": self.name},
            probe=Probe(True),
        )

    def beat(self) -> None:
        usage = NodeUsage(
            cpu=12.5,
            cores=(12.5,) * 8,
            memory=8 << 30,
            memory_total=64 << 30,
            load=0.5,
            disk_free=100 << 30,
            disk_total=1 << 40,
            network=Network(1000, 1000),
        )
        self.store.report([Heartbeat(usage)])

    def obey(self, change: DesiredChange) -> None:
        self._reconciliation.apply(change)
        self._runtime.drop(change.drop)

    def turn(self) -> float | None:
        """Start, stop and report what there is; returns when something ends next."""
        events: list[TaskEvent] = []
        for news in self._runtime.receive():
            if isinstance(news, Observed):
                events.append(self._event(news))
        actions = self._reconciliation.next_actions()
        if actions.start:
            self._start(actions.start)
        if actions.stop:
            self._runtime.stop([Stop(key, grace) for key, grace in actions.stop.items()])
        self._runtime.forget(actions.forget)
        for news in self._runtime.receive():
            if isinstance(news, Observed):
                events.append(self._event(news))
        if events:
            self.store.report([TaskEvents(tuple(events))])
        return self._runtime.due()

    def _start(self, keys: list[str]) -> None:
        launches = {launch_key(key): self._reconciliation.launches[launch_key(key)] for key in keys}
        self._runtime.define(
            {name: Launch(["true"], {}, None, each.component.grace, each.width) for name, each in launches.items()}
        )
        self._runtime.start([Start(key, launch_key(key), {}) for key in keys])

    def _event(self, seen: Observed) -> TaskEvent:
        if seen.ended is None:
            return Started(seen.key, seen.started or clock.wall(), seen.pid)
        self._reconciliation.note_end(seen.key)
        return Ended(
            key=seen.key,
            at=seen.ended,
            code=seen.code,
            signal=seen.signal,
            reason=seen.reason,
            started=seen.started,
            sizes=seen.sizes or {},
            stopped=seen.stopping,
        )


class Fleet(threading.Thread):
    """``count`` nodes with ``cpu`` cores each, in a thread; ``seconds``: how long a task lives."""

    def __init__(self, connect: Callable[[], RedisBackend], keys: Keys, count: int, cpu: int, seconds: float) -> None:
        super().__init__(daemon=True)
        self._backend = connect()
        self._keys = keys
        self._outbox = Outbox(connect())
        self.nodes = [
            FleetNode(f"n{number}", number, NodeStore(self._outbox, keys, f"n{number}"), cpu, lambda _: (seconds, 0))  # type: ignore[arg-type]
            for number in range(count)
        ]
        self._streams = {keys.changes(node.name): node for node in self.nodes}
        self._cursors = dict.fromkeys(self._streams, "0-0")
        self._beats = [(clock.steady() + HEARTBEAT * at / count, at) for at in range(count)]
        self._ends: list[tuple[float, int]] = []
        self._over = threading.Event()

    def hello(self) -> None:
        for node in self.nodes:
            node.hello()
        self._outbox.flush()

    def run(self) -> None:
        while not self._over.is_set():
            with suppress(UnreachableError):  # what was to be sent is kept
                self._turn()

    def end(self) -> None:
        self._over.set()
        self.join()

    def _turn(self) -> None:
        now = clock.steady()
        due = min([self._beats[0][0], *(end[0] for end in self._ends[:1])])
        found = self._backend.wait(self._cursors, min(LONGEST_WAIT, max(0.0, due - now)), 1000)
        awake = set()
        for stream, entries in found.items():
            node = self._streams[stream]
            for _, fields in entries:
                change = DESIRED_CHANGE.decode(fields["body"])
                node.obey(change)
                for key in change.memberships:
                    if text := self._backend.hget(self._keys.membership(node.name), key):
                        node.generations[key] = MEMBERSHIP.decode(text).generation
            self._cursors[stream] = entries[-1][0]
            awake.add(int(node.name[1:]))
        now = clock.steady()
        while self._ends and self._ends[0][0] <= now:
            awake.add(heapq.heappop(self._ends)[1])
        for number in awake:
            at = self.nodes[number].turn()
            if at is not None:
                heapq.heappush(self._ends, (at, number))
        while self._beats[0][0] <= now:
            at, number = heapq.heappop(self._beats)
            heapq.heappush(self._beats, (at + HEARTBEAT, number))
            if self.nodes[number].heard:
                self.nodes[number].beat()
        self._outbox.flush()
