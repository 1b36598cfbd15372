"""Waits for a change of a node, for clients that drain or remove it, and for a machine that joins.

Used by ``joins`` and ``nodes``.
"""

from __future__ import annotations

from zlib import crc32

from grass.system.clock import steady
from grass.wire.codec import encode
from grass.wire.node_record import NodeRecord
from grass.wire.node_views import NodeWaited
from master.api.call import Call
from master.api.feed import PAUSE
from master.api.views import node_view

_INTERVAL = 0.25
"""Seconds between checks of what causes no event (the number of tasks)."""


def wait_for_node(call: Call, name: str) -> NodeWaited:
    """Answer as soon as the node's mark differs from the parameter ``seen``, or time is up."""
    seen: str | None = call.query["seen"]
    with call.waiting() as granted, call.api.feed.listen() as changed:
        until = steady() + (call.query["timeout"] if granted else 0.0)
        while True:
            changed.clear()
            call.check_admitted()
            record = call.api.store.node(name)
            mark, left = node_mark(record), until - steady()
            if mark != seen or left <= 0 or call.api.feed.closed:
                view = node_view(record) if record else None
                return NodeWaited(view, mark, 0.0 if granted else PAUSE)
            changed.wait(min(left, _INTERVAL))


def node_mark(record: NodeRecord | None) -> str:
    """Return a text that changes whenever a client that waits for the node would see something new."""
    if record is None:
        return "gone"
    seen = [record.state, record.reason, record.tasks, record.cordoned]
    return f"{crc32(encode(seen).encode()):08x}"
