"""The daemons of Grass: one entry for each, from which follows whatever names daemons. Pure.

A new daemon is an entry of ``DAEMONS``, its package, and its unit in ``deploy/systemd``. Used by ``grass.cli``,
``grass.provision``, ``grass.provision.on_premises``, ``grass.supervision``, ``master.agent`` and ``master.collector``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

REDIS = "redis"
TASK_REDIS = "task-redis"
SUPERVISOR = "supervisord"
"""Not programs of Grass: two servers, and what starts all daemons of a local cluster."""


class Side(Enum):
    MASTER = "master"
    NODE = "node"


@dataclass(frozen=True)
class Daemon:
    """A daemon, started as ``python -m module CLUSTER_JSON``. ``side``: the hosts that run it."""

    name: str
    module: str
    side: Side
    sends_log: bool = True
    """Whether its log is sent to the collector."""
    stop_seconds: int = 5
    """Seconds from TERM until KILL, on a local cluster."""


COLLECTOR = Daemon("collector", "master.collector", Side.MASTER)
"""On hosts, fluentd may take its place."""
SHEPHERD = Daemon("shepherd", "node.runtime.shepherd", Side.NODE, sends_log=False, stop_seconds=20)
"""Depends on nothing, so it sends no log. It gives its tasks up to 10 s to end."""
MASTER_AGENT = Daemon("master-agent", "master.agent", Side.MASTER)
MASTER_API = Daemon("master-api-server", "master.api", Side.MASTER)
NODE_AGENT = Daemon("node-agent", "node.agent", Side.NODE)
NODE_API = Daemon("node-api-server", "node.api", Side.NODE)
DAEMONS = (
    COLLECTOR,
    SHEPHERD,
    Daemon("monitor", "master.monitor", Side.MASTER),
    MASTER_AGENT,
    MASTER_API,
    NODE_AGENT,
    NODE_API,
)
OPERATOR = Daemon("operator", "node.operator", Side.NODE, sends_log=False)
"""Beside the daemons of a namespace whose resources are served; not one of ``DAEMONS``, which every host runs."""
AUTOSCALER = Daemon("autoscaler", "grass.cli.autoscale_on_master", Side.MASTER, sends_log=False)
"""Beside the daemons of a master in a cloud, if its machine has an identity; not one of ``DAEMONS`` either."""
MASTER_DAEMONS = tuple(each.name for each in DAEMONS if each.side is Side.MASTER)
NODE_DAEMONS = tuple(each.name for each in DAEMONS if each.side is Side.NODE)
SENDING_LOGS = tuple(each.name for each in DAEMONS if each.sends_log)


@dataclass(frozen=True)
class DaemonState:
    """State of one daemon.

    ``start``: wall seconds, None when the daemon does not run. ``state``: supervisord's words (RUNNING, EXITED, …).
    """

    name: str
    pid: int | None
    state: str
    start: float | None
