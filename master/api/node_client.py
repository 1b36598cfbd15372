"""Calls from the master to a node-api-server, with the node's token. Errors of the node are raised here again.

Used by ``joins``, ``node_sessions`` and ``preflight``.
"""

from __future__ import annotations

import http.client
import json
import select
import socket
import threading
from collections.abc import Callable
from typing import Any

from grass import tls
from grass.api.bounded_body import read_body
from grass.api.error_reply import error_of
from grass.api.node_token import node_token
from grass.clock import steady
from grass.config import ClusterConfig, Secrets
from grass.errors import CertificateError, NodeUnreachableError
from grass.network_address import network_address
from grass.tls_files import node_identity
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
"""Time for a connection. A firewall may drop packets without an answer."""
_FAILURES = (OSError, http.client.HTTPException, ValueError, CertificateError)


_running = threading.BoundedSemaphore(AT_ONCE)


def call_node(config: ClusterConfig, record: NodeRecord, method: str, path: str, body: Any = None) -> Any:
    """Return the node's answer, decoded JSON whose type depends on the route. ``record``: of the node.

    Raises NodeUnreachableError, or the error that the node answered."""
    if not _running.acquire(timeout=BUSY_SECONDS):
        raise NodeUnreachableError(f"node {record.name}: too many calls to nodes are waiting; try again later")
    try:
        return _call(config, record, method, path, body, SECONDS)
    finally:
        _running.release()


def read_output(config: ClusterConfig, record: NodeRecord, path: str, check: Callable[[], None]) -> Any:
    """Do as ``call_node``, for a call that waits at the node. The caller must have a waiting slot.

    ``check``: is called every ``LOOK_SECONDS``, and before the answer is returned; what it raises ends the wait."""
    answer = _call(config, record, "GET", path, None, OUTPUT_SECONDS, check)
    check()
    return answer


def _call(
    config: ClusterConfig,
    record: NodeRecord,
    method: str,
    path: str,
    body: Any,
    seconds: float,
    check: Callable[[], None] | None = None,
) -> Any:
    name, address = record.name, node_address(record)
    if address is None:
        raise NodeUnreachableError(
            f"node {name}: the address of its API is not known yet; try again once the node is READY"
        )
    try:
        status, answer = _exchange(config, record, method, path, body, seconds, check)
    except _FAILURES as error:
        raise NodeUnreachableError(
            f"node {name}: the master cannot reach it at {address} ({_why(error)}); check that it is up, and that its "
            "firewall lets the master connect to this TCP port"
        ) from error
    match answer:
        case {"error": {"code": str(code), "message": str(message)}} if status >= 300:
            raise error_of({"code": code, "message": message})
        case dict() if status < 300:
            return answer
    raise NodeUnreachableError(
        f"node {name}: its API at {address} answered with status {status}, which is no reply of Grass"
    )


def why_unreachable(config: ClusterConfig, record: NodeRecord) -> str | None:
    """Try once, for a few seconds, to reach the node's API. Return why that fails, or None if it answers."""
    if node_address(record) is None:
        return "the address of its API is not known yet"
    try:
        status, _ = _exchange(config, record, "GET", "/v1/status", None, CONNECT_SECONDS)
    except _FAILURES as error:
        return _why(error)
    return None if status == http.client.OK else "another program answers there, or its token is different"


def node_address(record: NodeRecord) -> str | None:
    """Return ``ADDRESS:PORT`` of the node's API, or None while it is not known."""
    address, port = record.address, record.api_port
    return network_address(address, port) if address and port else None


def _exchange(
    config: ClusterConfig,
    record: NodeRecord,
    method: str,
    path: str,
    body: Any,
    seconds: float,
    check: Callable[[], None] | None = None,
) -> tuple[int, Any]:
    secret = Secrets.load(config.home).node_token
    token = secret if record.name == config.master.own_node else node_token(secret, record.name, record.digest)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connection = http.client.HTTPConnection(record.address, record.api_port, timeout=CONNECT_SECONDS)
    try:
        connection.connect()
        if config.tls:
            connection.sock = tls.wrap(connection.sock, config.tls_files, node_identity(config.name, record.name))
        connection.sock.settimeout(seconds)
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        if check is not None:
            _await_answer(connection.sock, seconds, check)
        response = connection.getresponse()
        return response.status, json.loads(read_body(response, seconds))
    finally:
        connection.close()


def _await_answer(connection: socket.socket, seconds: float, check: Callable[[], None]) -> None:
    """Return when the answer begins, or after ``seconds``."""
    until, poll = steady() + seconds, select.poll()
    poll.register(connection, select.POLLIN)
    while steady() < until and not poll.poll(LOOK_SECONDS * 1000):
        check()


def _why(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) else ""
    return (text or str(error) or type(error).__name__).lower()
