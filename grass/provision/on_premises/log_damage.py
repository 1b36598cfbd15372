"""Asks a master's machine whether its redis can read its log. Repairs nothing.

Used by ``status``, ``services`` and ``create``. A cluster on this machine asks ``redis_log`` itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from grass.errors import GrassError
from grass.hosts import Host
from grass.model.daemons import DaemonState
from grass.provision.on_premises.design import VENV
from grass.provision.redis_log import PATIENCE, DamagedLogError

RECENT = 30.0
"""Seconds since its start in which redis may not have read its log yet. One with a damaged log starts over and over."""
_CHECK = ("runuser", "-u", "grass", "--", f"{VENV}/bin/python", "-m", "grass.provision.redis_log")


def may_be_damaged(daemons: Sequence[DaemonState], now: float) -> bool:
    """Return whether redis is down, or started a moment ago. ``now``: by the clock of ``DaemonState.start``."""
    redis = next((daemon for daemon in daemons if daemon.name == "redis"), None)
    return redis is not None and (redis.state != "RUNNING" or now - (redis.start or 0.0) < RECENT)


def log_damage(host: Host, path: str, check: Sequence[str] = _CHECK) -> str:
    """Return what is damaged and what to do. Empty: the log is whole, or the host cannot be reached.

    ``path``: of the cluster's ``cluster.json`` on the host. ``check``: the command that gets it.
    """
    try:
        done = host.run([*check, path], sudo=True, timeout=2 * PATIENCE)
    except GrassError:
        return ""
    return done.out.strip() if done.code == DamagedLogError.exit_code else ""
