"""Waiting until a cluster that was started can be used: the node is READY and the API answers."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable

from grass import clock
from grass.config import ClusterConfig, Secrets
from grass.errors import GrassError, UnreachableError
from grass.model.lifecycle import NodeState
from grass.store.backend import Backend
from grass.store.connect import open_backend
from grass.store.keys import Keys

PATIENCE = 30.0
_STEP = 0.02


class NotReadyError(GrassError):
    """The daemons were started, but the cluster did not become usable in time."""


def wait_ready(config: ClusterConfig, secrets: Secrets, *, since: float, patience: float = PATIENCE) -> None:
    """``since``: wall seconds of the start; what the store says of the node may be older, from an earlier life."""
    until = clock.steady() + patience
    keys = Keys(config.key_prefix)
    backend = open_backend(config, secrets, "admin")
    try:
        _until(until, lambda: _why_no_node(backend, keys, config.node.name, since))
    finally:
        backend.close()
    _until(until, lambda: _why_no_api(config))


def _until(until: float, failure: Callable[[], str]) -> None:
    while found := failure():
        if clock.steady() > until:
            raise NotReadyError(found)
        clock.sleep(_STEP)


def _why_no_node(backend: Backend, keys: Keys, node: str, since: float) -> str:
    """Empty: it is READY."""
    try:
        record = json.loads(backend.hget(keys.nodes, node) or "null")
    except UnreachableError as error:
        return f"its node is not READY ({error})"
    if record is None or (record["seen"] or 0) < since:
        return "its node is not READY"
    if record["state"] == NodeState.READY.value:
        return ""
    reason = (record["reason"] or {}).get("message", "")
    return f"its node is {record['state']}{f': {reason}' if reason else ''}"


def _why_no_api(config: ClusterConfig) -> str:
    """Any answer will do: only a worker that is ready gives one."""
    connection = http.client.HTTPConnection(config.master.api_host, config.master.api_port, timeout=2)
    try:
        connection.request("GET", "/")
        connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        return "its API does not answer"
    finally:
        connection.close()
    return ""
