"""What the settings of every kind of cluster have in common, and the reader of these keys.

Used by ``local_settings``, ``on_premises``, ``settings``, ``grass.cli`` and ``grass.provision``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from grass.manifest import metrics, notify, quantities, quotas, values
from grass.manifest.fields import Fields
from grass.manifest.values import Wrong, show
from grass.model.amounts import show_span
from grass.model.policy import CHECK_INTERVAL, COUNT, LEAST_SILENT_AFTER, MOST_KEEP_DAYS, ClusterPolicy

count = values.whole(*COUNT)


@dataclass(frozen=True)
class ClusterSettings(ClusterPolicy):
    """Settings of one cluster. Each kind of cluster has a class of its own that extends this one.

    ``reserve``: the part of each node's resources that is reserved for the system. ``low_disk``: bytes of free disk
    below which a node accepts no tasks (None: see ``NodeConfig``). ``topology_command``: see ``NodePolicy``.
    """

    mode: ClassVar[str]
    """The kind, as in ``grass.model.mode``."""

    name: str = ""
    reserve: dict[str, int] = field(default_factory=dict)
    low_disk: int | None = None
    topology_command: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def read_rules(fields: Fields) -> dict[str, Any]:  # Any: values of several types, passed on as keyword arguments
    """Read the keys that every kind of cluster has."""
    silent_after, lost_after = _read_silence(fields)
    user_quotas, default_quota = quotas.read_quotas(fields)
    return {
        "parallel_level": fields.read("parallel_level", count, None),
        "check_interval": fields.read("check_interval", interval, ClusterSettings.check_interval),
        "keep_jobs": fields.read("keep_jobs", count, ClusterSettings.keep_jobs),
        "keep_days": fields.read("keep_days", _days, ClusterSettings.keep_days),
        "silent_after": silent_after,
        "lost_after": lost_after,
        "quotas": user_quotas,
        "default_quota": default_quota,
        "notify": notify.read_notify(fields),
        "metrics": metrics.read_metrics(fields),
        "reserve": quotas.read_reserve(fields),
        "topology_command": fields.read("topology_command", values.argv, ClusterSettings.topology_command),
        "low_disk": fields.read("low_disk", quantities.memory, None),
    }


def interval(value: Any) -> float:
    seconds = quantities.duration(value)
    least, most = CHECK_INTERVAL
    if not least <= seconds <= most:
        raise Wrong(f"must be between {least:g}s and {show_span(most)}, got {show(value)}")
    return seconds


def _days(value: Any) -> float:
    days = quantities.number(value, "a number of days")
    if not 0 < days <= MOST_KEEP_DAYS:
        raise Wrong(f"must be more than 0 and at most {MOST_KEEP_DAYS:g} days, got {show(value)}")
    return days


def _read_silence(fields: Fields) -> tuple[float, float]:
    """Return ``silent_after`` and ``lost_after``, in seconds."""
    silent = fields.read("silent_after", _silence, ClusterSettings.silent_after)
    lost = fields.read("lost_after", quantities.duration, max(ClusterSettings.lost_after, 2 * silent))
    if lost <= silent:
        fields.problems.add("lost_after", f"must be more than silent_after ({silent:g}s), got {lost:g}s")
    return silent, lost


def _silence(value: Any) -> float:
    seconds = quantities.duration(value)
    if seconds < LEAST_SILENT_AFTER:
        raise Wrong(f"must be at least {LEAST_SILENT_AFTER:g}s (two heartbeats), got {show(value)}")
    return seconds
