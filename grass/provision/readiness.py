"""Wait until a started cluster can be used: its node is READY and the API answers.

Used by ``inside_master`` and ``local``.
"""

from __future__ import annotations

import http.client
import json
import os
import select
from collections.abc import Callable
from contextlib import suppress

from grass.config import ClusterConfig, Secrets
from grass.errors import GrassError, UnreachableError
from grass.model.daemons import MASTER_AGENT
from grass.model.lifecycle import NodeState
from grass.provision import redis_log
from grass.store.backend import Backend
from grass.store.connect import open_backend
from grass.store.keys import Keys
from grass.supervision.supervisor import Supervisor
from grass.system import clock

PATIENCE = 30.0
_STEP = 0.02
_REDIS_PATIENCE = 2.5
"""Seconds without redis after which its log is checked: a redis with a damaged log ends at once."""


class NotReadyError(GrassError):
    """The daemons were started, but the cluster did not become usable in time."""


class SupervisorGoneError(GrassError):
    """supervisord ended while its cluster was started. Start it again."""


def wait_ready(config: ClusterConfig, secrets: Secrets, *, since: float, patience: float = PATIENCE) -> None:
    """Wait until the cluster is usable.

    ``since``: wall seconds of the start; older reports of the node in the store come from an earlier run. Raises
    NotReadyError, or at once when waiting is useless: SupervisorGoneError, DamagedLogError (of redis).
    """
    until = clock.steady() + patience
    keys = Keys(config.key_prefix)
    backend = open_backend(config, secrets, "admin")
    hopeless = _Hopeless(config)
    try:
        if (own := config.master.own_node) is not None:
            _until(until, lambda: _why_no_node(backend, keys, own, since), hopeless.check)
        else:
            _until(until, lambda: _why_no_agent(config, backend, keys), hopeless.check)
        _until(until, lambda: _why_no_api(config), hopeless.check)
    finally:
        backend.close()
        hopeless.close()


def _until(until: float, failure: Callable[[], str], check: Callable[[], None]) -> None:
    while found := failure():
        check()
        if clock.steady() > until:
            raise NotReadyError(found)
        clock.sleep(_STEP)


class _Hopeless:
    """Conditions that make waiting useless: supervisord is gone, or redis cannot read its log."""

    def __init__(self, config: ClusterConfig) -> None:
        self._config = config
        self._redis_due: float | None = clock.steady() + _REDIS_PATIENCE if config.redis.embedded else None
        try:
            self._supervisor = os.pidfd_open(Supervisor(config).pid())
        except OSError as error:
            raise SupervisorGoneError("supervisord is gone") from error
        self._poll = select.poll()
        self._poll.register(self._supervisor, select.POLLIN)

    def check(self) -> None:
        if self._poll.poll(0):
            raise SupervisorGoneError("supervisord is gone")
        if self._redis_due is not None and clock.steady() > self._redis_due:
            self._redis_due = None
            if not redis_log.answers(self._config, patience=0.0):
                redis_log.check(self._config)

    def close(self) -> None:
        os.close(self._supervisor)


def _why_no_node(backend: Backend, keys: Keys, node: str, since: float) -> str:
    """Return why the node is not READY; empty: the node is READY."""
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


def _why_no_agent(config: ClusterConfig, backend: Backend, keys: Keys) -> str:
    """Return why the master-agent takes no tickets; empty: the one that supervisord runs has the lease."""
    try:
        owner = backend.get(keys.lease) or ""
    except UnreachableError as error:
        return f"its master-agent does not work ({error})"
    with suppress(OSError):  # then supervisord is gone, and ``_Hopeless`` finds that
        running = {state.pid for state in Supervisor(config).daemons() if state.name == MASTER_AGENT.name}
        if owner and owner.rpartition(":")[2] in map(str, running):
            return ""
    return "its master-agent does not work"


def _why_no_api(config: ClusterConfig) -> str:
    """Return why the API does not answer. Any answer counts: only a ready worker sends one."""
    connection = http.client.HTTPConnection(config.master.api_host, config.master.api_port, timeout=2)
    try:
        connection.request("GET", "/")
        connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        return "its API does not answer"
    finally:
        connection.close()
    return ""
