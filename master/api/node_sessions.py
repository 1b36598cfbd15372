"""What is open on a node for a client: commands beside tasks, and forwards. A client names it ``NODE:ID``.

The name proves nothing. Each call passes the user, the job and the task on to the node, which finds only what was
opened for the same. Used by ``execs``, ``forwards``, ``joins`` and ``users``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from threading import Thread
from typing import Any, NamedTuple

from grass.errors import GrassError, NotAllowedError, NotFoundError
from grass.model.key_text import opened_name, opened_parts
from grass.model.lifecycle import NodeState
from grass.wire.calls import ExecInput, ExecSize, ForwardInput
from grass.wire.codec import builtins
from grass.wire.node_record import NodeRecord
from master.api.call import Call
from master.api.node_client import call_node, read_output

ToNode = ExecInput | ExecSize | ForwardInput

PAUSE = 0.5
"""Seconds after which a client asks again for output, if too many requests wait already."""
_AT_ONCE = 8
"""Nodes that are told at once to end what a user has open. ``call_node`` allows a few more, for other calls."""


class Kind(str, Enum):
    """Kinds of what may be open, as the node's API calls them."""

    EXEC = "exec"
    FORWARD = "forward"


class Opened(NamedTuple):
    """What is open on a node. ``path``: at the node's API, with its owner."""

    node: str
    path: str


def start(call: Call, kind: Kind, node: str, owner: str, body: dict[str, object]) -> str:
    """Open something on a node for the caller. Return its name for clients. Raises NotAllowedError for a caller who was
    disabled meanwhile.

    ``owner``: the job id, or the task as ``JOB ID/worker.3``: those of later calls."""
    body = {**body, "user": call.user}
    with call.outside():
        answer = call_node(call.api.config, find_node(call, node), "POST", f"/v1/{kind.value}", body)
    with ending(call, _opened(call, kind, node, owner, answer["id"])):
        call.check_admitted()
    return opened_name(node, answer["id"])


def find_opened(call: Call, kind: Kind, name: str, owner: str) -> Opened:
    """Return where calls about what the caller has opened go. The node refuses those of others. Raises NotFoundError.

    ``owner``: as for ``start``."""
    found = opened_parts(name)
    if found is None:
        raise NotFoundError(f"{kind.value} {name!r}: not found")
    return _opened(call, kind, found[0], owner, found[1])


def ask(call: Call, opened: Opened, method: str, path: str = "", content: ToNode | None = None) -> Any:
    """Pass a call on to the node. Return its answer, decoded JSON."""
    record, body = find_node(call, opened.node), None if content is None else builtins(content)
    with call.outside():
        return call_node(call.api.config, record, method, opened.path + path, body)


def await_output(call: Call, opened: Opened, after: int) -> Any:
    """Return the node's answer once there is output. The caller must have a waiting slot."""
    with ending(call, opened):
        record, path = find_node(call, opened.node), f"{opened.path}/output?after={after}"
        return read_output(call.api.config, record, path, call.check_admitted)


def _opened(call: Call, kind: Kind, node: str, owner: str, name: str) -> Opened:
    return Opened(node, f"/v1/{kind.value}/{call.user}/{owner}/{name}")


def find_node(call: Call, name: str) -> NodeRecord:
    """Return the node's record. Raises NotFoundError."""
    record = call.api.store.node(name)
    if record is None:
        raise NotFoundError(f"node {name}: not found; it was removed from the cluster")
    return record


@contextmanager
def ending(call: Call, opened: Opened) -> Iterator[None]:
    """End what is open, if the user loses the right to it inside of the context."""
    try:
        yield
    except NotAllowedError:
        with suppress(GrassError):  # the node ends it by itself after a minute without a call
            call_node(call.api.config, find_node(call, opened.node), "DELETE", opened.path)
        raise


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
