"""The store as the master-agent uses it: load the state once, receive tickets and reports, commit fenced steps.

Decides nothing. Used by ``master.agent`` only.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

import msgspec

from grass.errors import NewerVersionError, StaleLeaseError, UndecodableError
from grass.model.job import Job
from grass.model.lifecycle import JobState, TaskState
from grass.release import __version__
from grass.store.backend import Backend, Entry, Guard, Op
from grass.store.decoding import decoded_all
from grass.store.keys import WAKEUPS_KEPT, Keys
from grass.store.node_store import change_number
from grass.system.clock import steady
from grass.wire.codec import Form
from grass.wire.envelope import Undecodable, undecodable
from grass.wire.job_record import JOB_RECORD, JobRecord
from grass.wire.keys import LaunchKey, TaskKey
from grass.wire.launch import LAUNCH_TEMPLATE, LaunchTemplate
from grass.wire.node_record import NODE_RECORD, NodeRecord
from grass.wire.operation_record import OPERATION_RECORD, OperationRecord
from grass.wire.reports import REPORT, Report
from grass.wire.schedule_record import SCHEDULE_RECORD, ScheduleRecord
from grass.wire.specification import SPECIFICATION
from grass.wire.task_events import TaskEvents
from grass.wire.task_record import TASK_RECORD, TaskRecord
from grass.wire.tickets import TICKET, JoinNode, PlanJob, Ticket
from grass.wire.usage_record import KEPT_FILES, USAGE_RECORD, UsageRecord
from grass.wire.version import FORMAT, newer_format

_READ_AT_ONCE = 1_000
"""Most entries read from each stream. Entries beyond the limits of a round are kept for the next one."""
EVENTS_AT_ONCE = 1_000
"""Most task events that one round takes: about 10 ms of work for the master-agent and redis."""
TICKETS_AT_ONCE = 50
"""Most tickets that one round takes: to admit, plan and start a job takes about 200 µs."""
HEAVY = 10
"""Weight, in tickets, of a question (a plan of its own) and of a join (which creates a redis user)."""
_FEW_NODES = 32
"""Up to this number of nodes, one command waits for all report streams. In larger fleets, nodes announce their reports
on the wake-up stream: a command with a thousand streams would cost a millisecond for every event (ADR 7)."""
_STREAMS_AT_ONCE = 200
"""Most report streams read for one round: a ticket must not wait for the reports of a thousand nodes."""
_FUTURE = 3600.0
"""Seconds by which the clocks of redis and of the master-agent may differ: they run on one host."""
MOST_REPORT = 4 * 1024 * 1024
"""Characters of a report. A larger one is refused."""
_SWEEP = 0.5
"""Seconds between reads of all streams of a large fleet: heartbeats are not announced."""


class Message(msgspec.Struct, frozen=True):
    """One ticket or report. ``node`` is empty for a ticket."""

    stream: str
    entry_id: str
    node: str
    body: Ticket | Report | Undecodable
    ahead: float = 0.0
    """How far the node's clock was ahead of the store's, in seconds, when it sent this."""

    @property
    def name(self) -> str:
        """Return its kind, for people."""
        if isinstance(self.body, Undecodable):
            return self.body.envelope.kind or "a message without a kind"
        return str(self.body.__struct_config__.tag)

    @property
    def weight(self) -> int:
        """Return its share of a round's limit."""
        match self.body:
            case TaskEvents(events=events):
                return 1 + len(events)
            case PlanJob() | JoinNode():
                return HEAVY
        return 1


class LoadedJob(NamedTuple):
    record: JobRecord
    spec: Job | None
    """None for a finished job."""
    tasks: dict[TaskKey, TaskRecord]
    operations: dict[str, OperationRecord]


class _Sent(msgspec.Struct, frozen=True):
    """The part of a ``Membership`` that a rebuild needs. Its members are known from the tasks."""

    generation: int


_GENERATION: Form[_Sent] = Form(_Sent)


class Loaded(msgspec.Struct, frozen=True):
    """All that the master-agent's memory is rebuilt from."""

    jobs: Iterator[LoadedJob]
    """In no order. Read piece by piece during the iteration, so that memory never has all records at once."""
    nodes: dict[str, NodeRecord]
    launch: dict[str, dict[LaunchKey, LaunchTemplate]]
    generations: dict[str, dict[LaunchKey, int]]
    """Node → component → generation of the membership that the node was sent."""
    schedules: dict[str, ScheduleRecord]
    changes: dict[str, int]
    """Node → number of its last desired-state change."""
    usage: dict[str, UsageRecord]
    kept_files: dict[str, dict[str, int]]
    """User → ``space`` and ``files`` in the share."""


class AgentStore:
    """One instance per process of the master-agent. Call ``acquire`` first: only the last process that did can commit.

    ``tickets_at_once``, ``events_at_once``: limits of one round.
    """

    def __init__(
        self,
        backend: Backend,
        keys: Keys,
        *,
        tickets_at_once: int = TICKETS_AT_ONCE,
        events_at_once: int = EVENTS_AT_ONCE,
    ) -> None:
        self._backend = backend
        self._tickets_at_once = tickets_at_once
        self._events_at_once = events_at_once
        self.keys = keys
        self._fence = ""
        self._commit = 0
        self._cursors: dict[str, str] = {}
        self._node_of: dict[str, str] = {}
        self._woken = "0-0"
        self._swept = 0.0
        self._pending: dict[str, None] = {}
        """Report streams to read: of nodes on the wake-up stream, or of all nodes when a sweep is due."""
        self._tickets: deque[Entry] = deque()
        self._reports: deque[tuple[str, Entry]] = deque()
        """Both: entries that were read and not yet taken. They are taken before more of their stream is read."""

    def acquire(self, owner: str) -> None:
        """Take the lease. The supervisor runs one master-agent, so the newest process is the right one.

        Raises NewerVersionError, and changes nothing, if a newer Grass wrote the store.
        """
        keys = self.keys
        ops: list[Op] = [("INCR", keys.fence), ("SET", keys.lease, owner), ("SET", keys.format, str(FORMAT))]
        if self._backend.apply(ops, [("below", keys.format, str(FORMAT + 1))]):
            found = int(self._backend.get(keys.format) or 0)
            raise NewerVersionError(newer_format(f"the store ({keys.format})", found, "", __version__))
        self._fence = self._backend.get(self.keys.fence) or ""
        self._commit = int(self._backend.get(self.keys.commit) or 0)

    @property
    def epoch(self) -> int:
        """The number of the lease. It grows with every master-agent."""
        return int(self._fence or 0)

    def load(self) -> Loaded:
        keys, read = self.keys, self._backend.hgetall
        nodes = decoded_all(NODE_RECORD, keys.nodes, read(keys.nodes))
        self._cursors = {keys.tickets: "0-0", **read(keys.cursor)}
        self._tickets.clear()
        self._reports.clear()
        newest = self._backend.newest(keys.wakeups)
        self._woken, self._swept = newest[0] if newest else "0-0", 0.0
        for node in nodes:
            self.watch(node)
        return Loaded(
            jobs=self._jobs(),
            nodes=nodes,
            launch={node: self._launch(node) for node in nodes},
            generations={node: self._generations(node) for node in nodes},
            schedules=decoded_all(SCHEDULE_RECORD, keys.schedules, read(keys.schedules)),
            usage=decoded_all(USAGE_RECORD, keys.usage, read(keys.usage)),
            kept_files=decoded_all(KEPT_FILES, keys.kept_files, read(keys.kept_files)),
            changes={node: change_number(self._backend.newest(keys.changes(node))) for node in nodes},
        )

    def _jobs(self) -> Iterator[LoadedJob]:
        keys, seen = self.keys, set[str]()
        for texts in self._backend.hash_pieces(keys.jobs):
            new = {job_id: text for job_id, text in texts.items() if job_id not in seen}
            seen.update(new)
            records = decoded_all(JOB_RECORD, keys.jobs, new)
            live = [job_id for job_id, record in records.items() if not record.state.ended]
            specs = decoded_all(SPECIFICATION, keys.specs, self._backend.hget_many(keys.specs, live))
            for job_id, record in records.items():
                # a QUEUED job has no task records unless it was queued again or tasks of it were stopped, and there
                # may be many thousands of jobs
                known = record.operations > 0 or record.tries > 0 or TaskState.STOPPED in record.counts
                begun = not record.state.ended and (record.state is not JobState.QUEUED or known)
                tasks = self._tasks(job_id) if begun else {}
                filed = not record.state.ended and record.operations > 0
                yield LoadedJob(record, specs.get(job_id), tasks, self._operations(job_id) if filed else {})

    def _tasks(self, job_id: str) -> dict[TaskKey, TaskRecord]:
        key = self.keys.tasks(job_id)
        found = decoded_all(TASK_RECORD, key, self._backend.hgetall(key))
        return {TaskKey.parse(task): record for task, record in found.items()}

    def _operations(self, job_id: str) -> dict[str, OperationRecord]:
        key = self.keys.operations(job_id)
        return decoded_all(OPERATION_RECORD, key, self._backend.hgetall(key))

    def _launch(self, node: str) -> dict[LaunchKey, LaunchTemplate]:
        key = self.keys.launch(node)
        found = decoded_all(LAUNCH_TEMPLATE, key, self._backend.hgetall(key))
        return {LaunchKey.parse(launch): template for launch, template in found.items()}

    def _generations(self, node: str) -> dict[LaunchKey, int]:
        key = self.keys.membership(node)
        found = decoded_all(_GENERATION, key, self._backend.hgetall(key))
        return {LaunchKey.parse(launch): sent.generation for launch, sent in found.items()}

    def watch(self, node: str) -> None:
        """Receive this node's reports from now on, starting after the last committed one."""
        stream = self.keys.reports(node)
        self._node_of[stream] = node
        self._cursors.setdefault(stream, "0-0")

    def unwatch(self, node: str) -> None:
        """Stop receiving reports of a node that has left."""
        stream = self.keys.reports(node)
        self._node_of.pop(stream, None)
        self._cursors.pop(stream, None)

    def report_sizes(self) -> dict[str, tuple[int, int]]:
        """Return for each watched node how many entries its streams have, and their bytes."""
        nodes = list(self._node_of.values())
        sizes = self._backend.stream_sizes([*self._node_of, *(self.keys.node_usage(node) for node in nodes)])
        pairs = zip(sizes[: len(nodes)], sizes[len(nodes) :], strict=True)
        sums = ((reports[0] + samples[0], reports[1] + samples[1]) for reports, samples in pairs)
        return dict(zip(nodes, sums, strict=True))

    def discard_reports(self, node: str) -> None:
        """Remove the waiting reports of a node that was cut off, and receive no more."""
        self.unwatch(node)
        self._backend.apply([("DEL", self.keys.reports(node)), ("DEL", self.keys.node_usage(node))])

    def mend_wakeups(self, wall: float) -> bool:
        """Remove the wake-up stream if a node damaged it; return whether it did.

        Damage: the node filled the stream, or gave it an id of the future, after which no other node can append.
        Nothing is lost: all reports are read regularly."""
        [(entries, _)] = self._backend.stream_sizes([self.keys.wakeups])
        newest = self._backend.newest(self.keys.wakeups)
        ahead = newest is not None and int(newest[0].partition("-")[0]) / 1000 > wall + _FUTURE
        if entries <= 4 * WAKEUPS_KEPT and not ahead:
            return False
        self._backend.apply([("DEL", self.keys.wakeups)])
        self._woken = "0-0"
        return True

    def receive(self, seconds: float) -> list[Message]:
        """Return tickets and reports that no commit has taken yet. Waits up to ``seconds`` for the first.

        Their number is limited, so that a round is short and a new ticket is in the next one. The returned messages
        must be committed before the next call.
        """
        self._read(0.0 if self._tickets or self._reports else seconds)
        return [*self._next_tickets(), *self._next_reports()]

    def _next_tickets(self) -> Iterator[Message]:
        left = self._tickets_at_once
        while self._tickets and left > 0:
            message = _message(TICKET, self.keys.tickets, "", self._tickets.popleft())
            left -= message.weight
            yield message

    def _next_reports(self) -> Iterator[Message]:
        left = self._events_at_once
        while self._reports and left > 0:
            stream, entry = self._reports.popleft()
            if stream in self._node_of:  # the node may have left meanwhile
                message = _message(REPORT, stream, self._node_of[stream], entry)
                left -= message.weight
                yield message

    def _read(self, seconds: float) -> None:
        tickets = self.keys.tickets
        after = {} if self._tickets else {tickets: self._cursors[tickets]}
        if self._reports:
            found = self._backend.wait(after, 0, _READ_AT_ONCE) if after else {}
        elif len(self._node_of) <= _FEW_NODES:
            after.update((stream, self._cursors[stream]) for stream in self._node_of)
            found = self._backend.wait(after, seconds, _READ_AT_ONCE)
        else:
            found = self._of_woken(after, seconds)
        self._tickets.extend(found.pop(tickets, ()))
        self._reports.extend((stream, entry) for stream, entries in found.items() for entry in entries)

    def _of_woken(self, after: dict[str, str], seconds: float) -> dict[str, list[Entry]]:
        """Read the streams in ``after`` and the reports of nodes on the wake-up stream; regularly those of all
        nodes."""
        now, keys = steady(), self.keys
        if now - self._swept >= _SWEEP:
            self._swept = now
            self._pending.update(dict.fromkeys(self._node_of))
        patience = 0.0 if self._pending else min(seconds, self._swept + _SWEEP - now)
        found = self._backend.wait({**after, keys.wakeups: self._woken}, patience, _READ_AT_ONCE)
        woken = found.pop(keys.wakeups, [])
        self._pending.update((keys.reports(fields.get("node", "")), None) for _, fields in woken)
        self._woken = woken[-1][0] if woken else self._woken
        streams = list(islice(self._pending, _STREAMS_AT_ONCE))
        known = {name: self._cursors[name] for name in streams if name in self._node_of}
        if known:
            found.update(self._backend.wait(known, 0, _READ_AT_ONCE))
        for name in streams:
            del self._pending[name]
        return found

    def commit(self, messages: list[Message], ops: list[Op], names: Iterable[str] = ()) -> bool:
        """Consume ``messages`` and write ``ops``, in one atomic step.

        ``names``: of jobs that the step submits. Returns False, and changes nothing, if an active job has one of them:
        the API accepted it after the memory was made, so the memory must be rebuilt. Raises UnreachableError (call
        again with the same arguments; a completed step is not repeated) or StaleLeaseError (another master-agent has
        taken over; this process must end).
        """
        keys = self.keys
        number = self._commit + 1
        taken: dict[str, list[str]] = {}
        for message in messages:
            taken.setdefault(message.stream, []).append(message.entry_id)
        step: list[Op] = [("SET", keys.commit, str(number))]
        step += [("XDEL", stream, *ids) for stream, ids in taken.items()]
        if taken:
            step.append(("HSET", keys.cursor, *(text for pair in taken.items() for text in (pair[0], pair[1][-1]))))
        guards: list[Guard] = [("equals", keys.fence, self._fence), ("below", keys.commit, str(number))]
        guards += [("no-field", keys.live, name) for name in names]
        refused = self._backend.apply(step + ops, guards)
        if refused == 1:
            raise StaleLeaseError("another master-agent has taken over; this one ends")
        if refused > 2:  # 2: this step was done before, and its answer was lost
            return False
        self._commit = number
        self._cursors.update({stream: ids[-1] for stream, ids in taken.items()})
        return True


def _message(form: Form[Ticket] | Form[Report], stream: str, node: str, entry: Entry) -> Message:
    """Return an entry as a message. One that cannot be decoded is a message, too, so that it is refused by name."""
    entry_id, fields = entry
    text = fields.get("body", "")
    if len(text) > MOST_REPORT and node:
        text = ""  # empty text cannot be decoded, so the report is refused
    body: Ticket | Report | Undecodable
    try:
        body = form.decode(text)
    except UndecodableError as error:
        body = undecodable(text, error)
    return Message(stream, entry_id, node, body, _ahead(entry_id, fields))


def _ahead(entry_id: str, fields: dict[str, str]) -> float:
    """Return how far the sender's clock is ahead. The entry's id contains the store's clock, in milliseconds."""
    try:
        ahead = float(fields["at"]) - int(entry_id.partition("-")[0]) / 1000
    except (KeyError, ValueError):
        return 0.0
    return ahead if math.isfinite(ahead) else 0.0
