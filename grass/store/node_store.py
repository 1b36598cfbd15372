"""The store as one node-agent uses it: its desired state, changes of that, and its reports.

Used by ``agent_store``, ``node.agent.__main__``, ``node.agent.loop`` and ``node.agent.redis_threads``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import structs

from grass.store.backend import Backend, Entry, Op
from grass.store.decoding import decoded_all
from grass.store.keys import RECORD, USAGE_KEPT, WAKEUPS_KEPT, Keys
from grass.store.signed_images import SIGNED_IMAGE
from grass.system import clock
from grass.wire.backup import RESTORED, Restored
from grass.wire.codec import encode
from grass.wire.desired import DESIRED_ATTEMPT, DESIRED_CHANGE, DesiredAttempt, DesiredChange
from grass.wire.heartbeat import Heartbeat
from grass.wire.launch import LAUNCH_TEMPLATE, LaunchTemplate
from grass.wire.membership import MEMBERSHIP, Membership
from grass.wire.reports import Report
from grass.wire.usage import UsageSample

_HEARTBEAT = str(Heartbeat.__struct_config__.tag)


class ChangesGapError(Exception):
    """Changes were trimmed before this node read them; read ``desired`` again."""


class Desired(msgspec.Struct, frozen=True):
    """The whole desired state of the node, and the cursor from which to read changes."""

    entries: dict[str, DesiredAttempt]
    """By attempt key."""
    launch: dict[str, LaunchTemplate]
    """By launch key."""
    addresses: dict[str, str]
    """Job id → text of its addresses file."""
    cursor: str
    membership: dict[str, Membership] = {}
    """By launch key."""
    restored: Restored | None = None
    """Set: the store was restored from a backup, so what it desires may be old."""


class Revoked(msgspec.Struct, frozen=True):
    """Nodes that were removed from the cluster, and the master's wall seconds of then.

    Their certificates from before are valid for up to two days more, and nobody may accept them.
    """

    nodes: dict[str, float]


class NodeStore:
    """One instance per node-agent. Every method raises UnreachableError while redis is away, and UndecodableError for
    records of a master with another protocol."""

    def __init__(self, backend: Backend, keys: Keys, node: str) -> None:
        self._backend = backend
        self._node = node
        self._images = keys.images
        self._wakeups = keys.wakeups
        self._changes = keys.changes(node)
        self._revoked = keys.revoked
        self._restored = keys.restored
        self._last_revoked = "0-0"
        self._reports = keys.reports(node)
        self._usage = keys.node_usage(node)
        self._desired = (keys.desired(node), keys.launch(node), keys.addresses(node), keys.membership(node))
        self._number = 0

    def desired(self) -> Desired:
        """Read the desired state. The cursor is read first: a change in between is applied twice, which is harmless."""
        newest = self._backend.newest(self._changes)
        self._last_revoked = "0-0"
        self._number = change_number(newest)
        restored = self._backend.hget(self._restored, RECORD)
        entries, launch, addresses, membership = (self._backend.hgetall(key) for key in self._desired)
        return Desired(
            decoded_all(DESIRED_ATTEMPT, self._desired[0], entries),
            decoded_all(LAUNCH_TEMPLATE, self._desired[1], launch),
            addresses,
            newest[0] if newest else "0-0",
            decoded_all(MEMBERSHIP, self._desired[3], membership),
            None if restored is None else RESTORED.decode(restored),
        )

    def changes(self, cursor: str, seconds: float) -> tuple[str, list[DesiredChange | Revoked]]:
        """Return the new cursor and the changes after ``cursor``. Wait up to ``seconds`` for the first.

        The first call after ``desired`` also returns the nodes that were removed before: it may be called again because
        what was returned could not be applied. A membership is the present one: a later change may have replaced it
        already, or removed it.
        """
        streams = self._backend.wait({self._changes: cursor, self._revoked: self._last_revoked}, seconds, limit=1000)
        found, removed = streams.get(self._changes, []), streams.get(self._revoked, [])
        last = self._number
        for entry in found:
            number = change_number(entry)
            if number != last + 1:
                raise ChangesGapError(f"change {last + 1} is gone, {number} is the next")
            last = number
        changes: list[DesiredChange | Revoked] = []
        changes += self._with_memberships([DESIRED_CHANGE.decode(fields["body"]) for _, fields in found])
        if removed:
            changes.append(Revoked({fields["node"]: float(fields["at"]) for _, fields in removed}))
            self._last_revoked = removed[-1][0]
        self._number = last
        return (found[-1][0] if found else cursor), changes

    def _with_memberships(self, changes: list[DesiredChange]) -> list[DesiredChange]:
        key = self._desired[3]
        texts = {
            name: self._backend.hget(key, name) for name in {name for each in changes for name in each.memberships}
        }
        known = decoded_all(MEMBERSHIP, key, {name: text for name, text in texts.items() if text is not None})
        return [_with_memberships(each, known) if each.memberships else each for each in changes]

    def signed_off(self, image: str) -> str | None:
        """Return the digest of the image that its user pushed; None: there is no record."""
        text = self._backend.hget(self._images, image)
        return None if text is None else SIGNED_IMAGE.decode(text).digest

    def report(self, reports: Sequence[Report]) -> None:
        """Write reports in order. They are durable when this returns; a repeat after a lost reply is harmless.

        A heartbeat alone is not announced on the wake-up stream. It replaces an unread earlier one, so that heartbeats
        do not accumulate while the master-agent is away.
        """
        now = f"{clock.wall():.3f}"
        only_alive = all(isinstance(report, Heartbeat) for report in reports)
        ops: list[Op] = []
        if only_alive and (unread := self._backend.newest(self._reports)) and unread[1].get("kind") == _HEARTBEAT:
            ops.append(("XDEL", self._reports, unread[0]))
        for report in reports:
            kind = str(report.__struct_config__.tag)  # beside the body, so that the check above need not decode it
            ops.append(("XADD", self._reports, 0, "kind", kind, "body", encode(report), "at", now))
        # Another node may have damaged the shared stream; the master-agent then finds the reports by itself.
        hints: list[Op] = [] if only_alive else [("XADD", self._wakeups, WAKEUPS_KEPT, "node", self._node)]
        self._backend.append(ops, hints)

    def usage(self, sample: UsageSample) -> None:
        """Append a sample to this node's usage stream."""
        self._backend.append([("XADD", self._usage, USAGE_KEPT, "body", encode(sample))], urgent=False)


def _with_memberships(change: DesiredChange, known: Mapping[str, Membership]) -> DesiredChange:
    return structs.replace(change, membership={name: known[name] for name in change.memberships if name in known})


def change_number(entry: Entry | None) -> int:
    """Return the number of a change. They are numbered from 1 without gaps, across restarts of the master-agent."""
    return int(entry[1]["number"]) if entry else 0
