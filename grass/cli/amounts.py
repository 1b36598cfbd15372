"""Times, durations, counts and resources in words. Pure; durations are seconds, instants seconds since the epoch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import Any

from grass.model.lifecycle import JobState, TaskState
from grass.model.resources import show_cpu, show_gpu, show_memory

NOTHING = "-"

_SHOW: Mapping[str, Callable[[int], str]] = {
    "cpu": show_cpu,
    "memory": show_memory,
    "gpu": show_gpu,
    "disk": show_memory,
}

_UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
_ORDER = (
    TaskState.FAILED,
    TaskState.LOST,
    TaskState.RUNNING,
    TaskState.STARTING,
    TaskState.ASSIGNED,
    TaskState.PENDING,
    TaskState.SUCCEEDED,
    TaskState.STOPPED,
)


def show_span(seconds: float) -> str:
    """Two units at most: ``7s``, ``1m30s``, ``2d4h``. Negative (another machine's clock) is shown as ``0s``."""
    rest = max(0, int(seconds))
    for place, (unit, size) in enumerate(_UNITS[:-1]):
        if rest >= size:
            smaller, smaller_size = _UNITS[place + 1]
            part = rest % size // smaller_size
            return f"{rest // size}{unit}" + (f"{part}{smaller}" if part else "")
    return f"{rest}s"


def show_age(since: float | None, now: float) -> str:
    return NOTHING if since is None else show_span(now - since)


def show_instant(instant: float | None) -> str:
    """Local time, as ``--since`` takes it."""
    if instant is None:
        return NOTHING
    return datetime.fromtimestamp(instant, timezone.utc).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def show_stamp(instant: float) -> str:
    """With milliseconds and zone, for log lines: ``2026-03-01T12:00:00.123+01:00``."""
    return datetime.fromtimestamp(instant, timezone.utc).astimezone().isoformat(timespec="milliseconds")


def show_counts(counts: Mapping[str, int]) -> str:
    """All states that any task is in, what needs attention first: ``1 failed, 2 running, 3 pending``."""
    shown = [f"{counts[state.value]} {state.value.lower()}" for state in _ORDER if counts.get(state.value)]
    return ", ".join(shown) or "no tasks"


def show_progress(state: str, counts: Mapping[str, int]) -> str:
    """The one number that says how far a job is: ``3/5 running``, ``3000/5000 done``, ``1/5 failed``."""
    total = sum(counts.values())
    ended = sum(count for name, count in counts.items() if TaskState(name).ended)
    if state == JobState.QUEUED:
        return f"{counts.get(TaskState.PENDING.value, 0)}/{total} pending"
    if JobState(state).ended:
        return f"{counts.get(state, 0)}/{total} {state.lower()}"
    return f"{ended}/{total} done" if ended else f"{counts.get(TaskState.RUNNING.value, 0)}/{total} running"


def show_share(free: Mapping[str, Any] | None, total: Mapping[str, Any] | None, name: str) -> str:
    """``1.5/2`` free of all; ``-`` where the node did not say. ``name``: also that of a custom resource."""
    if not total:
        return NOTHING
    show = _SHOW.get(name, str)
    left = "?" if free is None else show(_amount(free, name))
    return f"{left}/{show(_amount(total, name))}"


def _amount(resources: Mapping[str, Any], name: str) -> int:
    return int(resources.get(name, 0) if name in _SHOW else resources.get("custom", {}).get(name, 0))


def show_reason(reason: Mapping[str, Any] | None) -> str:
    return "" if reason is None else str(reason["message"])


def show_amount(resource: str, amount: int) -> str:
    """``1.5GiB memory``, ``2 gpu``, ``3 licences``."""
    return f"{_SHOW.get(resource, str)(amount)} {resource}"


def show_nodes(group: Mapping[str, Any]) -> str:
    """Nodes that keep a task away for the same cause, as the planner groups them, in the planner's own words."""
    nearest, why, resource = group["nearest"], group["why"], group.get("resource", "")
    if group["count"] == 1:
        return f"{nearest}: {show_amount(resource, group['short'])} short" if resource else f"{nearest}: {why}"
    short = f", nearest is {nearest}, {show_amount(resource, group['short']).split()[0]} short" if resource else ""
    return f"{group['count']} nodes: {why}{short}"
