"""A whole cluster in one process: the real reactor over the memory store, simulated nodes, a clock that tests set."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec import structs

from grass.model.job import Job
from grass.model.lifecycle import JobState
from grass.model.resources import DEVICE, Resources
from grass.store.accounts import MemoryAccounts
from grass.store.agent_store import AgentStore
from grass.store.api_store import ApiStore
from grass.store.job_index import EVERYBODY
from grass.store.keys import Keys
from grass.store.node_store import NodeStore, Revoked
from grass.wire import codec
from grass.wire.desired import DesiredAttempt
from grass.wire.keys import AttemptKey, TaskKey
from grass.wire.launch import LaunchTemplate
from grass.wire.membership import Membership
from grass.wire.task_record import TaskRecord
from master.agent.agenda import Agenda
from master.agent.changes import Changes, store_operations
from master.agent.reactor import react
from master.agent.recover import rebuild
from master.agent.schedules import arm
from master.agent.step import ASSIGNED_AT_ONCE, Limits, Step
from master.planning.decide import decide
from tests.doubles.memory_backend import MemoryBackend
from tests.support.invariants import check_events, check_invariants, check_quotas
from tests.support.said import report, ticket
from tests.support.sessions import sighting
from tests.support.takeover import MOST, check_takeover

BOOT = "boot-1"
EPOCH = 1_700_000_000.0
MANY = 1_000_000

OFTEN, SELDOM = 30, 20
"""So many times the memory is compared with what a new master-agent would know; then once in so many."""
CALM = 5.0
"""Step while only the end of waits is awaited: shorter than the silence that makes a node SILENT."""


@dataclass
class SimulatedNode:
    """Carries out its desired state like a node-agent, except that the test ends attempts."""

    name: str
    store: NodeStore
    total: Resources
    desired: dict[str, DesiredAttempt] = field(default_factory=dict)
    launch: dict[str, LaunchTemplate] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)
    membership: dict[str, Membership] = field(default_factory=dict)
    running: dict[str, int] = field(default_factory=dict)
    stopping: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    let_go: list[str] = field(default_factory=list)
    """Tasks of which it need not keep memory any more."""
    cursor: str = "0-0"
    devices: list[dict[str, Any]] = field(default_factory=list)
    """Devices as in the node's hello: id, name, memory."""
    busy: dict[int, str] = field(default_factory=dict)
    """Device → owner of another program on it."""
    lost: dict[int, str] = field(default_factory=dict)
    """Device → why it does not answer."""
    ecc: dict[int, int] = field(default_factory=dict)
    """Device → uncorrected errors of its memory."""
    conditions: list[dict[str, Any]] = field(default_factory=list)
    """Reasons why the node accepts no tasks now."""
    about: dict[str, Any] = field(default_factory=dict)
    """Other fields of the hello: labels, path, runtimes, version, probe."""
    connected: bool = True
    obstinate: bool = False
    """Tasks do not end when they are told to stop."""
    stuck: bool = False
    """Attempts that it gets do not start."""
    stuck_tasks: set[str] = field(default_factory=set)
    """Those of these tasks do not."""

    def hello(self, boot: str = BOOT) -> None:
        desired = self.store.desired()
        self.desired, self.launch, self.cursor = desired.entries, desired.launch, desired.cursor
        self.addresses, self.membership = desired.addresses, desired.membership
        self.running = {key: pid for key, pid in self.running.items() if key in self.desired}
        resources = codec.builtins(self.total)
        body = {"boot_id": boot, "version": "0", "address": f"10.0.0.{self.name[-1]}", "api_port": 1}
        body["conditions"] = self.conditions
        body |= {"resources": resources, "gpus": self.devices, **self.about}
        self.store.report([report("hello", body)])

    def beat(self) -> None:
        gpus = [
            {"id": number, "busy": self.busy.get(number), "error": self.lost.get(number), "ecc": self.ecc.get(number)}
            for number in (device["id"] for device in self.devices)
        ]
        body = {"usage": {"gpus": gpus} if gpus else {}, "conditions": self.conditions}
        body["programs"] = self.about.get("programs")
        self.store.report([report("heartbeat", body)])

    def pump(self, wall: float) -> bool:
        """Take changes, and stop and start tasks accordingly. Return True when something was reported."""
        if not self.connected:
            return False
        self.cursor, changes = self.store.changes(self.cursor, 0)
        for change in changes:
            if isinstance(change, Revoked):
                continue
            self.launch.update(change.launch)
            self.desired.update(change.set)
            self.let_go += change.let_go
            for key in change.remove:
                self.desired.pop(key, None)
                if self.running.pop(key, None) is not None:
                    self.ended.add(key)
            self.addresses.update(change.addresses)
            self.membership.update(change.membership)
        events = [*self._stops(wall), *self._starts(wall)]
        if events:
            self.store.report([report("tasks", {"events": events})])
        return bool(events)

    def _stops(self, wall: float) -> list[dict[str, Any]]:
        events = []
        for key, entry in list(self.desired.items()):
            if entry.stop_grace is not None and key not in self.ended and not self.obstinate:
                signal = 15 if key in self.running else None
                events.append(self.end(key, wall, code=None if signal else 0, signal=signal, stopped=True))
        return events

    def _starts(self, wall: float) -> list[dict[str, Any]]:
        events = []
        for key, entry in sorted(self.desired.items(), key=lambda item: item[1].seq):
            launch = str(AttemptKey.parse(key).launch)
            width = self.launch[launch].width
            assert width is not None
            beside = sum(1 for other in self.running if other.startswith(launch + "."))
            if (
                self.stuck
                or key.split("/")[1] in self.stuck_tasks
                or key in self.running
                or key in self.ended
                or entry.stop_grace is not None
                or beside >= width
            ):
                continue
            self.running[key] = len(self.running) + 100
            events.append({"key": key, "event": "started", "pid": self.running[key], "at": wall})
        return events

    def waits(self, key: str) -> bool:
        """Return whether it has an attempt that has not started."""
        return key in self.desired and key not in self.running and key not in self.ended

    def end(self, key: str, wall: float, seconds: float = 1, **how: Any) -> dict[str, Any]:
        self.running.pop(key, None)
        self.ended.add(key)
        event = {"key": key, "event": "ended", "code": 0, "signal": None, "reason": None, "started": wall - seconds}
        return {**event, "at": wall, "sizes": {"stdout": 0, "stderr": 0}, **how}


class World:
    def __init__(self, limits: Limits | None = None, seed: int = 1, **bears: int) -> None:
        """``bears``: limits of one round, as ``AgentStore`` takes them."""
        self.bears = bears
        self.backend = MemoryBackend()
        self.accounts = MemoryAccounts()
        self.keys = Keys("grass:test:")
        self.api = ApiStore(self.backend, self.keys)
        self.limits = replace(limits or Limits(), version="0")
        self.now = 1000.0
        self.boot = BOOT
        self.nodes: dict[str, SimulatedNode] = {}
        self.random = random.Random(seed)
        self.decide = decide
        """The planner of the rounds."""
        self.room = ASSIGNED_AT_ONCE
        """Most tasks that a round may assign."""
        self.removed: list[str] = []
        self.shrunk: set[str] = set()
        self.strangers: set[str] = set()
        """Nodes that must join by a ticket, or that have left."""
        self.attempts: dict[tuple[str, str, int], int] = {}
        """Task → its last attempt."""
        self.compares = True
        """Whether the memory is compared with what a new master-agent would know (``takeover``)."""
        self.checks = 0
        self.holds = False
        """What happens is kept, and arrives later in one round."""
        self.takeover()

    @property
    def wall(self) -> float:
        return EPOCH + self.now

    def takeover(self) -> None:
        """Start a new master-agent: everything that it knows comes from the store."""
        self.store = AgentStore(self.backend, self.keys, **self.bears)
        self.store.acquire("test")
        self.agenda = Agenda()
        self.cluster = rebuild(self.store.load(), self.agenda, self.now, self.boot, self.limits.usage_half_life)
        for name in self.nodes:
            if name not in self.strangers:
                self.store.watch(name)
        self.agenda.add(self.now, "nodes")
        step = self.step()
        for record in self.cluster.schedules.values():
            arm(step, record)
        step.changes.plan = True
        self.round(step)

    def step(self) -> Step:
        step = Step(self.cluster, self.agenda, self.limits, self.random, self.now, self.wall, self.boot, self.decide)
        step.epoch = self.store.epoch
        step.assignable = self.room
        return step

    def round(self, step: Step | None = None) -> bool:
        """Run one round of the master-agent. Return True when the round had something to do."""
        step = step or self.step()
        messages = self.store.receive(0)
        due = self.agenda.due(self.now)
        react(step, messages, due)
        check_invariants(self.cluster, self.shrunk)
        check_events(step.changes.events)
        check_quotas(self.cluster, step, self.attempts)
        ops = store_operations(step.changes, self.cluster, self.keys)
        self._accounts(step.changes, before=True)
        assert self.store.commit(messages, ops, step.changes.names_taken)
        self._accounts(step.changes, before=False)
        step.changes.committed()
        self.removed += step.changes.removed
        return bool(messages)

    def _accounts(self, changes: Changes, before: bool) -> None:
        for name, digest in changes.accounts.items():
            if before and digest is not None:
                self.accounts.add(name, digest)
                self.strangers.discard(name)
                self.store.watch(name)
            elif not before and digest is None:
                self.accounts.remove(name)
                self.strangers.add(name)
                self.store.unwatch(name)

    def run(self) -> None:
        """Run rounds until nothing more follows from past events."""
        busy = not self.holds
        while busy:
            busy = self.round() or self.agenda.wait(self.now, 1.0) == 0
            for node in self.nodes.values():
                busy = node.pump(self.wall) or busy
        if self.compares and not self.holds:
            self._check_takeover()

    def _check_takeover(self) -> None:
        self.checks += 1
        if self.checks > OFTEN and self.checks % SELDOM:
            return
        parts = [part for run in self.cluster.jobs.values() for part in run.components.values()]
        if sum(len(part.tasks) for part in parts) <= MOST:
            loaded = AgentStore(self.backend, self.keys, **self.bears).load()
            rebuilt = rebuild(loaded, Agenda(), self.now, self.boot, self.limits.usage_half_life)
            check_takeover(self.cluster, rebuilt)

    @contextmanager
    def one_round(self) -> Iterator[None]:
        """Let all that happens within arrive in one round."""
        self.holds = True
        yield
        self.holds = False
        self.run()

    def plan_again(self) -> None:
        """Plan although nothing asks for it."""
        step = self.step()
        step.changes.plan = True
        self.round(step)
        self.run()

    def advance(self, seconds: float, step: float = 1.0) -> None:
        """Let time pass in steps of ``step`` seconds at most; connected nodes send their heartbeats."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(end, self.now + step)
            for node in self.nodes.values():
                if node.connected:
                    node.beat()
            self.run()

    def add_node(
        self, name: str, cpu: float = 2, memory: int = 4 << 30, gpu: int = 0, joins: bool = False, **more: Any
    ) -> SimulatedNode:
        """``more``: ``disk``, ``custom``, and other fields of the hello. A node that ``joins`` sends no hello yet."""
        total = Resources(int(cpu * 1000), memory, gpu * DEVICE, more.pop("disk", 0), more.pop("custom", ()))
        node = self.nodes[name] = SimulatedNode(name, NodeStore(self.backend, self.keys, name), total)
        model = more.pop("model", "A100")
        node.devices = [{"id": number, "name": model, "memory": 40 << 30} for number in range(gpu)]
        node.about = more
        if joins:
            self.strangers.add(name)
            return node
        self.store.watch(name)
        node.hello()
        self.run()
        return node

    def ticket(self, kind: str, **body: Any) -> None:
        self.api.ticket(ticket(kind, **{"user": "ann", **body}))
        self.run()

    def submit(self, job: Job, run: int = 1, user: str = "ann", **more: Any) -> str:
        """``more``: other arguments of ``ApiStore.submit``."""
        job_id = f"{job.name}-{run}"
        self.api.submit(job, job_id=job_id, user=user, now=self.wall, warnings=[], sighting=sighting(self.api), **more)
        self.run()
        return job_id

    def end(self, key: str, **how: Any) -> None:
        """End the attempt: ``code=1``, ``signal=9``, or with a ``reason``; it has run for ``seconds``."""
        node = next(node for node in self.nodes.values() if key in node.running or node.waits(key))
        node.store.report([report("tasks", {"events": [node.end(key, self.wall, **how)]})])
        self.run()

    def running(self) -> list[str]:
        return sorted(key for node in self.nodes.values() for key in node.running)

    def job(self, name: str) -> dict[str, Any]:
        record = self.api.job(name)
        assert record is not None, name
        view: dict[str, Any] = codec.builtins(record)
        return view

    def schedule_views(self) -> list[dict[str, Any]]:
        return [codec.builtins(record) for record in self.api.schedules()]

    def tasks(self, job_id: str) -> dict[str, dict[str, Any]]:
        return {str(key): task_view(key, record) for key, record in self.api.tasks(job_id).items()}

    def node_views(self) -> list[dict[str, Any]]:
        return [codec.builtins(record) for record in self.api.nodes()]

    def jobs(self) -> list[dict[str, Any]]:
        """Return all jobs in order of submission. Check that the index by state lists exactly these jobs."""
        index, states = self.api.job_index, list(JobState)
        found = [self.api.runs(index.newest([[state]], EVERYBODY, MANY, None)) for state in states]
        for state, records in zip(states, found, strict=True):
            assert all(record.state is state for record in records), f"the index has another state than {records}"
            for user in {record.user for record in records}:
                own = [record.id for record in records if record.user == user]
                assert index.newest([[state]], user, MANY, None) == own
        counts = {state: len(records) for state, records in zip(states, found, strict=True) if records}
        assert counts == index.counts()
        assert sum(counts.values()) == len(self.backend.hgetall(self.keys.jobs))
        every = sorted((one for records in found for one in records), key=lambda record: (record.submitted, record.id))
        return [codec.builtins(record) for record in every]

    def events(self) -> list[dict[str, Any]]:
        return [codec.builtins(event.record) for event in self.api.events()]


def task_view(key: TaskKey, record: TaskRecord) -> dict[str, Any]:
    fields = {name: codec.builtins(value) for name, value in structs.asdict(record).items()}
    return {"task": str(key), "component": key.component, "index": key.index, **fields}
