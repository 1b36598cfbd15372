"""The policy for jobs and nodes: the part of the settings that every kind of cluster has. Pure.

The one definition of each default, unit and bound. The reader of settings files, ``cluster.json`` and the master-agent
extend it (``Settings``, ``MasterConfig``, ``Limits``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from grass.model.metrics import MetricsListen
from grass.model.notify import Notify

COUNT = (1, 1_000_000)
"""Bounds of every setting that is a count."""
CHECK_INTERVAL = (0.1, 86_400.0)
"""Bounds of the interval, in seconds."""
MOST_KEEP_DAYS = 36_500.0
LEAST_SILENT_AFTER = 4.0
"""Least value in seconds: two heartbeats."""
SPACE, FILES = "space", "files"
"""Parts of a quota: bytes and number of a user's files in the share."""


@dataclass(frozen=True)
class ClusterPolicy:
    parallel_level: int | None = None
    """Most jobs that run at once; None: only the free resources of the nodes limit the number."""
    check_interval: float = 5.0
    """Seconds between housekeeping rounds (retention, idle count). Work never waits for it."""
    keep_agent_alive: bool = True
    agent_countdown: int = 5
    """Idle rounds after which the cluster shuts down if ``keep_agent_alive`` is false."""
    keep_jobs: int = 1000
    keep_days: float = 30.0
    """Days to keep finished jobs. A job beyond this bound or the other one is removed with its logs."""
    silent_after: float = 8.0
    """Seconds without a heartbeat (one every 2 s) until a node is SILENT."""
    lost_after: float = 300.0
    """Seconds of silence until a node's tasks are replaced. Long, because a disconnected node keeps working."""
    quotas: dict[str, dict[str, int]] = field(default_factory=dict)
    """User → resource → the most that all running tasks of that user may use (units of ``Resources``)."""
    default_quota: dict[str, int] = field(default_factory=dict)
    """Quota of users without their own. A resource that a quota does not name is not limited.

    ``space`` and ``files`` limit what a user keeps in the share (``SPACE``); the others, all running tasks of the user.
    """
    notify: Notify | None = None
    """Who is notified of events of the cluster."""
    metrics: MetricsListen | None = None
    """Where `/metrics` is served over TLS, besides the API's own port."""
    usage_half_life: float = 86_400.0
    """Seconds after which past use counts half in fair shares. Not in settings files."""

    def policy(self) -> dict[str, Any]:  # Any: values of several types, passed on as keyword arguments
        """Return name → value of these fields, for another class that extends this one."""
        return {each.name: getattr(self, each.name) for each in fields(ClusterPolicy)}


def exceeded(quota: Mapping[str, int], kept: Mapping[str, int]) -> str:
    """Return which limit on the share a user's files exceed: ``space`` or ``files``; empty: none."""
    return next((name for name in (SPACE, FILES) if name in quota and kept.get(name, 0) > quota[name]), "")
