"""How fast a component works, from the figures that its tasks report (``grass.report``). Pure. Used by ``rules``.

The figure ``throughput`` is taken if a task reports it: what is done per second. Otherwise, steps per second are. The
rates of all tasks that report are added: a figure that only one task reports stands for the whole component.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

THROUGHPUT = "throughput"
LEAST_POINTS = 3
"""Reports of a task before its rate means something."""


class Point(NamedTuple):
    """A report. ``value``: of the figure ``throughput``; None: only the step is known."""

    at: float
    step: float
    value: float | None = None


Reports = Mapping[str, Sequence[Point]]
"""Task → its reports, oldest first."""


class Rate(NamedTuple):
    """A measured rate. ``tasks``: how many tasks it was measured from."""

    value: float
    tasks: int
    unit: str

    def __str__(self) -> str:
        return f"{self.value:.3g} {self.unit}/s"


def before(reports: Reports, since: float, until: float, span: float) -> Rate | None:
    """Return the rate just before ``until``, over ``span`` seconds or three reports, whichever is longer."""
    found = {}
    for task, points in reports.items():
        inside = [point for point in points if since <= point.at < until]
        if len(inside) >= LEAST_POINTS:
            found[task] = [point for point in inside if point.at >= min(until - span, inside[-LEAST_POINTS].at)]
    return _total(found)


def after(reports: Reports, since: float, span: float, tasks: int) -> Rate | None:
    """Return the rate just after ``since``, over ``span`` seconds or three reports, whichever is longer.

    None: that time is not over, or fewer than ``tasks`` tasks have reported.
    """
    found = {}
    for task, points in reports.items():
        inside = [point for point in points if point.at >= since]
        if len(inside) < LEAST_POINTS or inside[-1].at - inside[0].at < span / 2:
            continue
        end = max(since + span, inside[LEAST_POINTS - 1].at)
        if inside[-1].at >= end:
            found[task] = [point for point in inside if point.at <= end]
    return _total(found) if len(found) >= tasks else None


def gain(slow: Rate, fast: Rate, few: int, many: int) -> float:
    """Return which part of a linear gain a growth brought: 1 if twice as many tasks are twice as fast."""
    return (fast.value / slow.value - 1) / (many / few - 1) if slow.value > 0 else 1.0


def _total(found: Mapping[str, Sequence[Point]]) -> Rate | None:
    valued = [points for points in found.values() if points[0].value is not None]
    if valued:
        means = [sum(point.value or 0.0 for point in points) / len(points) for points in valued]
        return Rate(sum(means), len(means), THROUGHPUT)
    rates = [rate for points in found.values() if (rate := _steps(points)) is not None]
    return Rate(sum(rates), len(rates), "steps") if rates else None


def _steps(points: Sequence[Point]) -> float | None:
    """Return the steps per second since the task began anew last, as after a checkpoint was read."""
    first = max((index for index in range(1, len(points)) if points[index].step < points[index - 1].step), default=0)
    seconds = points[-1].at - points[first].at
    return (points[-1].step - points[first].step) / seconds if seconds > 0 else None
