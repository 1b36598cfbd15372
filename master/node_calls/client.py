"""Calls from the master to a node-api-server, with the node's token. Errors of the node are raised here again.

Used by ``channels``, ``joins``, ``preflight`` and ``stacks``.
"""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress

from grass.api.node_link import FAILURES, NodeLink, refusal
from grass.api.node_token import node_token
from grass.config import ClusterConfig, Secrets
from grass.errors import NodeUnreachableError, UndecodableError
from grass.network_address import network_address
from grass.system.clock import steady
from grass.wire.calls import NoContent
from grass.wire.codec import encode
from grass.wire.node_api import STATUS, Answered, Asked, NodeCall
from grass.wire.node_record import NodeRecord

SECONDS = 8.0
"""Time for an answer that does not wait at the node."""
OUTPUT_SECONDS = 28.0
"""Time for output: longer than a request for it waits at the node."""
LOOK_SECONDS = 0.5
"""Time between looks at whether the user may still have the answer that is awaited."""
AT_ONCE = 12
"""Calls to nodes at once, besides those for output, so that hung nodes block only this many threads."""
BUSY_SECONDS = 0.25
"""Time to wait for one of these calls to end. A longer wait would block the threads of other requests."""
CONNECT_SECONDS = 2.0

_running = threading.BoundedSemaphore(AT_ONCE)


def call_node(
    config: ClusterConfig,
    record: NodeRecord,
    call: NodeCall[Asked, Answered],
    content: Asked,
    where: Mapping[str, str] | None = None,
) -> Answered:
    """Return the node's answer. ``record``: of the node. ``where``: the parts of the path.

    Raises NodeUnreachableError, or the error that the node answered."""
    if not _running.acquire(timeout=BUSY_SECONDS):
        raise NodeUnreachableError(f"node {record.name}: too many calls to nodes are waiting; try again later")
    try:
        body = encode(content).encode() if call.method == "POST" else None
        return _call(config, record, call, call.target(where or {}), body, SECONDS)
    finally:
        _running.release()


def read_output(
    config: ClusterConfig,
    record: NodeRecord,
    call: NodeCall[NoContent, Answered],
    where: Mapping[str, str],
    after: int,
    check: Callable[[], None],
) -> Answered:
    """Do as ``call_node``, for a call that waits at the node. The caller must have a waiting slot.

    ``check``: is called every ``LOOK_SECONDS``, and before the answer is returned; what it raises ends the wait."""

    def wait(connection: socket.socket) -> None:
        """Return when the answer begins, or after ``OUTPUT_SECONDS``."""
        until, poll = steady() + OUTPUT_SECONDS, select.poll()
        poll.register(connection, select.POLLIN)
        while steady() < until and not poll.poll(LOOK_SECONDS * 1000):
            check()

    answer = _call(config, record, call, f"{call.target(where)}?after={after}", None, OUTPUT_SECONDS, wait)
    check()
    return answer


def _call(
    config: ClusterConfig,
    record: NodeRecord,
    call: NodeCall[Asked, Answered],
    target: str,
    body: bytes | None,
    seconds: float,
    wait: Callable[[socket.socket], None] = lambda _: None,
) -> Answered:
    name, address = record.name, node_address(record)
    if address is None:
        raise NodeUnreachableError(
            f"node {name}: the address of its API is not known yet; try again once the node is READY"
        )
    try:
        status, answer = _link(config, record).exchange(call.method, target, body, seconds, wait)
    except FAILURES as error:
        raise NodeUnreachableError(
            f"node {name}: the master cannot reach it at {address} ({_why(error)}); check that it is up, and that its "
            "firewall lets the master connect to this TCP port"
        ) from error
    with suppress(UndecodableError):
        if status < 300:
            return call.answered.decode(answer)
    raise refusal(answer) or NodeUnreachableError(
        f"node {name}: its API at {address} answered with status {status}, which is no reply of Grass"
    )


def why_unreachable(config: ClusterConfig, record: NodeRecord) -> str | None:
    """Try once, for a few seconds, to reach the node's API. Return why that fails, or None if it answers."""
    if node_address(record) is None:
        return "the address of its API is not known yet"
    try:
        _, answer = _link(config, record).exchange(STATUS.method, STATUS.path, None, CONNECT_SECONDS)
        STATUS.answered.decode(answer)
    except FAILURES as error:
        return _why(error)
    except UndecodableError:
        return "another program answers there, or its token is different"
    return None


def node_address(record: NodeRecord) -> str | None:
    """Return ``ADDRESS:PORT`` of the node's API, or None while it is not known."""
    address, port = record.address, record.api_port
    return network_address(address, port) if address and port else None


def _link(config: ClusterConfig, record: NodeRecord) -> NodeLink:
    secret = Secrets.load(config.home).node_token
    token = secret if record.name == config.master.own_node else node_token(secret, record.name, record.digest)
    return NodeLink(config, record.name, record.address, record.api_port, token, CONNECT_SECONDS)


def _why(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) else ""
    return (text or str(error) or type(error).__name__).lower()
