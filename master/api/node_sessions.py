"""Names of what is open on a node for a client, ``NODE:ID``: commands beside tasks, and forwards.

Used by ``execs``, ``forwards``, ``joins`` and ``users``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread

from grass.errors import GrassError, NotAllowedError, NotFoundError
from grass.model.key_text import opened_parts
from grass.wire.node_record import NodeRecord
from master.api.call import Call
from master.api.node_client import call_node

PAUSE = 0.5
"""Seconds after which a client asks again for output, if too many requests wait already."""


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
    """Remember what the caller has just opened. Raises NotAllowedError if the caller was disabled meanwhile."""
    call.api.opened.add(call.user, node, path)
    with ending(call, node, path):
        call.check_admitted()


def end_opened(call: Call, user: str) -> None:
    """End what a user has open, also what no call waits for now. A node that does not answer holds up nothing else."""
    for node, paths in call.api.opened.take(user).items():
        Thread(target=_end, args=(call, node, paths), daemon=True).start()


def _end(call: Call, node: str, paths: list[str]) -> None:
    for path in paths:
        with suppress(GrassError):  # it has ended, or the node ends it by itself after a minute without a call
            call_node(call.api.config, find_node(call, node), "DELETE", path)
