"""Names of what is open on a node for a client, ``NODE:ID``: commands beside tasks, and forwards.

Used by ``execs``, ``forwards``, ``joins`` and ``users``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread

from grass.errors import GrassError, NotAllowedError, NotFoundError
from grass.model.key_text import opened_parts
from grass.model.lifecycle import NodeState
from grass.wire.node_record import NodeRecord
from master.api.call import Call
from master.api.node_client import call_node

PAUSE = 0.5
"""Seconds after which a client asks again for output, if too many requests wait already."""
_AT_ONCE = 8
"""Nodes that are told at once to end what a user has open. ``call_node`` allows a few more, for other calls."""


def split_name(kind: str, name: str) -> tuple[str, str]:
    """Return the node, and the id there. ``kind``: what the message calls it. Raises NotFoundError."""
    found = opened_parts(name)
    if found is None:
        raise NotFoundError(f"{kind} {name!r}: not found")
    return found


def find_node(call: Call, name: str) -> NodeRecord:
    """Return the node's record. Raises NotFoundError."""
    record = call.api.store.node(name)
    if record is None:
        raise NotFoundError(f"node {name}: not found; it was removed from the cluster")
    return record


@contextmanager
def ending(call: Call, node: str, path: str) -> Iterator[None]:
    """End what is open at ``path`` of the node, if the user loses the right to it inside of the context."""
    try:
        yield
    except NotAllowedError:
        with suppress(GrassError):  # the node ends it by itself after a minute without a call
            call_node(call.api.config, find_node(call, node), "DELETE", path)
        raise


def opened(call: Call, node: str, path: str) -> None:
    """End what the caller has just opened, and raise NotAllowedError, if the caller was disabled meanwhile."""
    with ending(call, node, path):
        call.check_admitted()


def end_opened(call: Call, user: str) -> None:
    """Have nodes end what a user has open, also what no call waits for now. READY nodes are told first, so that those
    that do not answer hold up none of them."""
    nodes = deque(sorted(call.api.store.nodes(), key=lambda record: record.state is not NodeState.READY))
    for _ in range(min(len(nodes), _AT_ONCE)):
        Thread(target=_end, args=(call, user, nodes), daemon=True).start()


def _end(call: Call, user: str, nodes: deque[NodeRecord]) -> None:
    while True:
        try:
            record = nodes.popleft()
        except IndexError:
            return
        with suppress(GrassError):  # the node ends it by itself after a minute without a call
            call_node(call.api.config, record, "DELETE", f"/v1/users/{user}")
