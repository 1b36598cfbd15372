"""The master's calls to a node-api-server, with the node's token. Errors come back as the node raised them."""

from __future__ import annotations

import http.client
import json
import threading
from typing import Any

from grass.api.node_token import node_token
from grass.api.transport import error_of
from grass.config import ClusterConfig, Secrets
from grass.errors import NodeUnreachableError
from grass.wire.node_record import NodeRecord

SECONDS = 8.0
"""For an answer that a node gives at once."""
OUTPUT_SECONDS = 28.0
"""Longer than a node keeps anybody waiting for output."""
AT_ONCE = 12
"""Calls to nodes at once, besides those for output: nodes that hang hold only so many of the server's threads."""
BUSY_SECONDS = 0.25
"""For one of these calls to end. Longer waits would hold the threads that other requests need."""
CONNECT_SECONDS = 2.0
"""A firewall that swallows what comes is not waited for any longer."""
_FAILURES = (OSError, http.client.HTTPException, ValueError)


_running = threading.BoundedSemaphore(AT_ONCE)


def call_node(config: ClusterConfig, record: NodeRecord, method: str, path: str, body: Any = None) -> Any:
    """``record``: of the node. Raises NodeUnreachableError, or what the node answered."""
    if not _running.acquire(timeout=BUSY_SECONDS):
        raise NodeUnreachableError(f"node {record.name}: too many calls to nodes that do not answer; try again soon")
    try:
        return _call(config, record, method, path, body, SECONDS)
    finally:
        _running.release()


def read_output(config: ClusterConfig, record: NodeRecord, path: str) -> Any:
    """As ``call_node``, of a call that waits at the node. The caller has taken a place to wait."""
    return _call(config, record, "GET", path, None, OUTPUT_SECONDS)


def _call(config: ClusterConfig, record: NodeRecord, method: str, path: str, body: Any, seconds: float) -> Any:
    name, place = record.name, node_place(record)
    if place is None:
        raise NodeUnreachableError(f"node {name} has not said where its API is")
    try:
        status, answer = _exchange(config, record, method, path, body, seconds)
    except _FAILURES as error:
        raise NodeUnreachableError(
            f"the master cannot reach node {name} at {place} ({_why(error)}): is it up, and does its firewall let the "
            "master in at this TCP port?"
        ) from error
    if status >= 300:
        wire = answer["error"]
        raise error_of({"code": wire["code"], "message": wire["message"], "problems": []})
    return answer


def why_unreachable(config: ClusterConfig, record: NodeRecord) -> str | None:
    """What keeps the master from the node's API, looked at once, in a few seconds at most; None: it answers."""
    if node_place(record) is None:
        return "it has not said where its API is"
    try:
        status, _ = _exchange(config, record, "GET", "/v1/status", None, CONNECT_SECONDS)
    except _FAILURES as error:
        return _why(error)
    return None if status == http.client.OK else "something else answers there, or with another token"


def node_place(record: NodeRecord) -> str | None:
    """``ADDRESS:PORT`` of its API, once it is known."""
    address, port = record.address, record.api_port
    return f"{address}:{port}" if address and port else None


def _exchange(
    config: ClusterConfig, record: NodeRecord, method: str, path: str, body: Any, seconds: float
) -> tuple[int, Any]:
    secret = Secrets.load(config.home).node_token
    token = secret if record.name == config.master.own_node else node_token(secret, record.name)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connection = http.client.HTTPConnection(record.address, record.api_port, timeout=CONNECT_SECONDS)
    try:
        connection.connect()
        connection.sock.settimeout(seconds)
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def _why(error: Exception) -> str:
    said = error.strerror if isinstance(error, OSError) else ""
    return (said or str(error) or type(error).__name__).lower()
