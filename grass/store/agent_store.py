"""The store as the master-agent sees it: the whole state once at the start, then what arrives, and fenced commits."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from grass.clock import steady
from grass.errors import StaleLeaseError
from grass.model.job import Job
from grass.store.backend import Backend, Entry, Op
from grass.store.keys import Keys
from grass.store.node_store import order_number
from grass.store.records import ended

_READ_AT_ONCE = 1_000
"""Entries of each stream. What is more than a round should bear is kept for the next."""
EVENTS_AT_ONCE = 1_000
"""Events of tasks in the reports that one round takes: about 10 ms of the master-agent and redis."""
TICKETS_AT_ONCE = 50
"""Tickets that one round takes: a job that is admitted, planned and started costs some 200 µs."""
_HEAVY = {"plan": 10, "node-join": 10}
"""Kinds that weigh so many tickets: a question is a plan of its own, a node that joins gets a redis user."""
_FEW_NODES = 32
"""Up to so many, all report streams are waited for at once. Beyond, who reports rings the bell: a command that names a
thousand streams costs a millisecond, each time anything happens anywhere (ADR 7)."""
_STREAMS_AT_ONCE = 200
"""So many of them are read for one round: a ticket must not wait until the reports of a thousand nodes are taken."""
_SWEEP = 0.5
"""Seconds between looks at all streams of a large fleet: heartbeats do not ring."""


@dataclass(frozen=True)
class Message:
    """One ticket or report. ``node`` is empty for a ticket."""

    stream: str
    entry_id: str
    node: str
    kind: str
    body: dict[str, Any]
    ahead: float = 0.0
    """Seconds by which the clock of the node was ahead of the store's when it sent this."""

    @property
    def events(self) -> int:
        """Of tasks, that a report tells."""
        found = self.body.get("events")
        return len(found) if isinstance(found, list) else 0


@dataclass(frozen=True)
class Loaded:
    """Everything that the master-agent's memory is rebuilt from; ``tasks`` of jobs that have not ended."""

    specs: dict[str, Job]
    jobs: dict[str, dict[str, Any]]
    tasks: dict[str, dict[str, list[Any]]]
    nodes: dict[str, dict[str, Any]]
    desired: dict[str, dict[str, dict[str, Any]]]
    launch: dict[str, dict[str, dict[str, Any]]]
    schedules: dict[str, dict[str, Any]]
    orders: dict[str, int]
    usage: dict[str, list[Any]]


class AgentStore:
    """One instance per life of a master-agent. ``acquire`` first: only who acquired last can commit.

    ``tickets_at_once``, ``events_at_once``: what one round takes.
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
        self._rung = "0-0"
        self._swept = 0.0
        self._pending: dict[str, None] = {}
        """Streams of nodes that rang, and of all when it is time for a sweep, until they are read."""
        self._tickets: deque[Entry] = deque()
        self._reports: deque[tuple[str, Entry]] = deque()
        """Both: read, but more than the last round could bear. Nothing is read of a stream before they are taken."""

    def acquire(self, owner: str) -> None:
        """Take the lease over. The supervisor runs one master-agent, so the newest is the one that is meant."""
        self._backend.apply([("INCR", self.keys.fence), ("SET", self.keys.lease, owner)])
        self._fence = self._backend.get(self.keys.fence) or ""
        self._commit = int(self._backend.get(self.keys.commit) or 0)

    def load(self) -> Loaded:
        keys, read = self.keys, self._backend.hgetall
        jobs = _decoded(read(keys.jobs))
        nodes = _decoded(read(keys.nodes))
        self._cursors = {keys.tickets: "0-0", **read(keys.cursor)}
        self._tickets.clear()
        self._reports.clear()
        newest = self._backend.newest(keys.bell)
        self._rung, self._swept = newest[0] if newest else "0-0", 0.0
        for node in nodes:
            self.watch(node)
        return Loaded(
            specs={job_id: Job.from_wire(wire) for job_id, wire in _decoded(read(keys.specs)).items()},
            jobs=jobs,
            tasks={job_id: _decoded(read(keys.tasks(job_id))) for job_id in jobs if not ended(jobs[job_id])},
            nodes=nodes,
            desired={node: _decoded(read(keys.desired(node))) for node in nodes},
            launch={node: _decoded(read(keys.launch(node))) for node in nodes},
            schedules=_decoded(read(keys.schedules)),
            usage=_decoded(read(keys.usage)),
            orders={node: order_number(self._backend.newest(keys.orders(node))) for node in nodes},
        )

    def watch(self, node: str) -> None:
        """Take reports of this node from now on, from where the last commit left them."""
        stream = self.keys.reports(node)
        self._node_of[stream] = node
        self._cursors.setdefault(stream, "0-0")

    def unwatch(self, node: str) -> None:
        """The node has left: nothing of it is taken any more."""
        stream = self.keys.reports(node)
        self._node_of.pop(stream, None)
        self._cursors.pop(stream, None)

    def receive(self, seconds: float) -> list[Message]:
        """Tickets and reports that no commit has taken yet, waiting up to ``seconds`` for the first.

        As many as one round should bear, so that none takes long: a ticket that comes now is in the next. What is
        returned must be committed before the next call.
        """
        self._read(0.0 if self._tickets or self._reports else seconds)
        return [*self._next_tickets(), *self._next_reports()]

    def _next_tickets(self) -> Iterator[Message]:
        room = self._tickets_at_once
        while self._tickets and room > 0:
            message = _message(self.keys.tickets, "", self._tickets.popleft())
            room -= _HEAVY.get(message.kind, 1)
            yield message

    def _next_reports(self) -> Iterator[Message]:
        room = self._events_at_once
        while self._reports and room > 0:
            stream, entry = self._reports.popleft()
            if stream in self._node_of:  # the node may have left meanwhile
                message = _message(stream, self._node_of[stream], entry)
                room -= 1 + message.events
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
            found = self._by_bell(after, seconds)
        self._tickets.extend(found.pop(tickets, ()))
        self._reports.extend((stream, entry) for stream, entries in found.items() for entry in entries)

    def _by_bell(self, after: dict[str, str], seconds: float) -> dict[str, list[Entry]]:
        """What came ``after``, and the reports of the nodes that rang; now and then of all."""
        now, keys = steady(), self.keys
        if now - self._swept >= _SWEEP:
            self._swept = now
            self._pending.update(dict.fromkeys(self._node_of))
        patience = 0.0 if self._pending else min(seconds, self._swept + _SWEEP - now)
        found = self._backend.wait({**after, keys.bell: self._rung}, patience, _READ_AT_ONCE)
        rings = found.pop(keys.bell, [])
        self._pending.update((keys.reports(fields.get("node", "")), None) for _, fields in rings)
        self._rung = rings[-1][0] if rings else self._rung
        streams = list(islice(self._pending, _STREAMS_AT_ONCE))
        known = {name: self._cursors[name] for name in streams if name in self._node_of}
        if known:
            found.update(self._backend.wait(known, 0, _READ_AT_ONCE))
        for name in streams:
            del self._pending[name]
        return found

    def commit(self, messages: list[Message], ops: list[Op]) -> None:
        """Consume ``messages`` and write what they led to, in one step.

        Raises UnreachableError (call again with the same arguments: a step that was done is not done twice) or
        StaleLeaseError (another master-agent writes now; this one must end).
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
        refused = self._backend.apply(
            step + ops, [("equals", keys.fence, self._fence), ("below", keys.commit, str(number))]
        )
        if refused == 1:
            raise StaleLeaseError("another master-agent has taken over; this one ends")
        self._commit = number
        self._cursors.update({stream: ids[-1] for stream, ids in taken.items()})


def _message(stream: str, node: str, entry: Entry) -> Message:
    """What nobody can read is a message of that kind, so that it is taken and gone."""
    entry_id, fields = entry
    try:
        body = json.loads(fields["body"])
    except (KeyError, ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        return Message(stream, entry_id, node, "unreadable", {})
    return Message(stream, entry_id, node, fields.get("kind", "unreadable"), body, _ahead(entry_id, fields))


def _ahead(entry_id: str, fields: dict[str, str]) -> float:
    """The store numbers what it takes by its own clock, in milliseconds."""
    try:
        return float(fields["at"]) - int(entry_id.partition("-")[0]) / 1000
    except (KeyError, ValueError):
        return 0.0


def _decoded(texts: dict[str, str]) -> dict[str, Any]:
    return {key: json.loads(text) for key, text in texts.items()}
