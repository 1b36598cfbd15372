"""Format times, counts and states for the CLI. Pure; durations are in seconds, instants in seconds since the epoch.

``grass.model.amounts`` formats amounts of resources and durations, for the CLI and for the planner. Used by this
package.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from grass.model.amounts import show_quantity, show_span
from grass.model.lifecycle import JobState, TaskState

if TYPE_CHECKING:
    from grass.model.reasons import Reason
    from grass.wire.node_views import ResourcesView

NOTHING = "-"

_ORDER = (
    TaskState.FAILED,
    TaskState.LOST,
    TaskState.RUNNING,
    TaskState.ASSIGNED,
    TaskState.PENDING,
    TaskState.SUCCEEDED,
    TaskState.STOPPED,
)


_NOT_DONE = (TaskState.FAILED, TaskState.LOST, TaskState.STOPPED)


def show_age(since: float | None, now: float) -> str:
    return NOTHING if since is None else show_span(now - since)


def show_instant(instant: float | None) -> str:
    """Return the local time, in the form that ``--since`` accepts."""
    if instant is None:
        return NOTHING
    return datetime.fromtimestamp(instant, timezone.utc).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def show_stamp(instant: float) -> str:
    """Return the time with milliseconds and zone, for log lines: ``2026-03-01T12:00:00.123+01:00``."""
    return datetime.fromtimestamp(instant, timezone.utc).astimezone().isoformat(timespec="milliseconds")


def show_counts(counts: Mapping[TaskState, int]) -> str:
    """Return the number of tasks in each state, the worst state first: ``1 failed, 2 running, 3 pending``."""
    shown = [f"{counts[state]} {state.value.lower()}" for state in _ORDER if counts.get(state)]
    return ", ".join(shown) or "no tasks"


def show_progress(state: JobState, counts: Mapping[TaskState, int]) -> str:
    """Return a job's progress: ``3/5 running``, ``3000/5000 done``, ``3000/5000 done, 349 failed``."""
    total, done = sum(counts.values()), counts.get(TaskState.SUCCEEDED, 0)
    if state is JobState.QUEUED:
        return f"{counts.get(TaskState.PENDING, 0)}/{total} pending"
    bad = [f"{counts[one]} {one.value.lower()}" for one in _NOT_DONE if counts.get(one)]
    if not (done or bad or state.ended):
        return f"{counts.get(TaskState.RUNNING, 0)}/{total} running"
    return ", ".join([f"{done}/{total} done", *bad])


def show_free(free: ResourcesView | None, total: ResourcesView | None, name: str) -> str:
    """Return ``free/total``, such as ``1.5/2``, or ``-`` for a node without a report. ``name``: of any resource."""
    if total is None:
        return NOTHING
    left = "?" if free is None else show_quantity(name, free.amount(name))
    return f"{left}/{show_quantity(name, total.amount(name))}"


def show_failure(reason: Reason | None) -> str:
    """Return the class of an end, in words; empty: it is none of a failure."""
    return "" if reason is None or reason.failure is None else str(reason.failure)


def tell_failures(reasons: Iterable[Reason | None]) -> bool:
    """Return whether a table has a column for classes: unless all failures are what most are."""
    return any(show_failure(each) not in ("", "user error") for each in reasons)


def show_reason(reason: Reason | None) -> str:
    return "" if reason is None else reason.message
