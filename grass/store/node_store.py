"""The store as one node-agent sees it: its desired state, the changes of that, its reports."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from grass import clock
from grass.store.backend import Backend, Entry, Op
from grass.store.decoding import decoded_all
from grass.store.keys import WAKEUPS_KEPT, Keys
from grass.wire.codec import encode
from grass.wire.desired import DESIRED_ATTEMPT, DESIRED_CHANGE, DesiredAttempt, DesiredChange
from grass.wire.heartbeat import Heartbeat
from grass.wire.launch import LAUNCH_TEMPLATE, LaunchTemplate
from grass.wire.reports import Report

_HEARTBEAT = str(Heartbeat.__struct_config__.tag)


class ChangesGapError(Exception):
    """Changes were trimmed before this node read them: read ``desired`` again."""


class Desired(msgspec.Struct, frozen=True):
    """All that should be on the node, and the cursor from which to follow the changes."""

    entries: dict[str, DesiredAttempt]
    """By attempt key."""
    launch: dict[str, LaunchTemplate]
    """By launch key."""
    addresses: dict[str, str]
    """Job id → text of its addresses file."""
    cursor: str


class NodeStore:
    """One instance per node-agent. Every method raises UnreachableError while redis is away, UndecodableError for what
    another protocol's master wrote."""

    def __init__(self, backend: Backend, keys: Keys, node: str) -> None:
        self._backend = backend
        self._node = node
        self._wakeups = keys.wakeups
        self._changes = keys.changes(node)
        self._reports = keys.reports(node)
        self._desired = (keys.desired(node), keys.launch(node), keys.addresses(node))
        self._number = 0

    def desired(self) -> Desired:
        """The cursor is read first: a change that falls in between is applied twice, which changes nothing."""
        newest = self._backend.newest(self._changes)
        self._number = change_number(newest)
        entries, launch, addresses = (self._backend.hgetall(key) for key in self._desired)
        return Desired(
            decoded_all(DESIRED_ATTEMPT, self._desired[0], entries),
            decoded_all(LAUNCH_TEMPLATE, self._desired[1], launch),
            addresses,
            newest[0] if newest else "0-0",
        )

    def changes(self, cursor: str, seconds: float) -> tuple[str, list[DesiredChange]]:
        """Changes after ``cursor``, waiting up to ``seconds`` for the first; and the cursor behind them."""
        found = self._backend.wait({self._changes: cursor}, seconds, limit=1000).get(self._changes, [])
        for entry in found:
            number = change_number(entry)
            if number != self._number + 1:
                raise ChangesGapError(f"change {self._number + 1} is gone, {number} is the next")
            self._number = number
        return (found[-1][0] if found else cursor), [DESIRED_CHANGE.decode(fields["body"]) for _, fields in found]

    def report(self, reports: Sequence[Report]) -> None:
        """Durable when it returns. In order; a repeat after a lost reply is harmless.

        A heartbeat can wait, so it wakes nobody up; and it takes the place of the one before that nobody has read, so
        that a master-agent that is away for a day does not find a day of them.
        """
        now = f"{clock.wall():.3f}"
        only_alive = all(isinstance(report, Heartbeat) for report in reports)
        ops: list[Op] = []
        if only_alive and (unread := self._backend.newest(self._reports)) and unread[1].get("kind") == _HEARTBEAT:
            ops.append(("XDEL", self._reports, unread[0]))
        for report in reports:
            kind = str(report.__struct_config__.tag)  # beside the body, so that the above need not decode it
            ops.append(("XADD", self._reports, 0, "kind", kind, "body", encode(report), "at", now))
        if not only_alive:
            ops.append(("XADD", self._wakeups, WAKEUPS_KEPT, "node", self._node))
        self._backend.apply(ops)


def change_number(entry: Entry | None) -> int:
    """Changes of a node are numbered without gaps from 1, across restarts of the master-agent."""
    return int(entry[1]["number"]) if entry else 0
