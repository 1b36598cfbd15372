"""The curves of all tasks of some jobs for one chart, with the parameters that tell the tasks apart. Pure.

Used by ``questions``.
"""

from __future__ import annotations

from collections.abc import Sequence

from grass.api.results import Cell, Results
from grass.dashboard.curves import Record
from grass.wire.usage_views import JobMetricsView, OwnCurve

MOST_POINTS = 100_000
"""Points of all curves together. The curves of a job have 32,768; those of many jobs are thinned alike."""


def run_curves(results: Results, metrics: Sequence[JobMetricsView]) -> Record:
    """Return the tasks that have curves, with their parameters, the curves, and how much is not there.

    A curve is the position of its task, that of its figure, steps and values.
    """
    several = len(metrics) > 1
    points = sum(len(curve.steps) for view in metrics for curve in view.curves)
    every = -(-points // MOST_POINTS) or 1
    values = {(row["id"], row["task"]): _values(results, row, several) for row in results}
    tasks = list(dict.fromkeys((view.id, curve.task) for view in metrics for curve in view.curves))
    names = list(dict.fromkeys(curve.name for view in metrics for curve in view.curves))
    places, at = ({each: place for place, each in enumerate(found)} for found in (tasks, names))
    return {
        "parameters": [*(["job"] if several else []), *results.parameters],
        "figures": names,
        "tasks": [{"id": job, "task": task, "values": values.get((job, task), {})} for job, task in tasks],
        "curves": [
            [places[view.id, curve.task], at[curve.name], *_thinned(curve, every)]
            for view in metrics
            for curve in view.curves
        ],
        "all": sum(view.figures for view in metrics),
        "points": min((view.points for view in metrics), default=0) // every,
        "dropped": sum(view.dropped for view in metrics),
        "not_finite": sum(view.not_finite for view in metrics),
    }


def _values(results: Results, row: dict[str, Cell], several: bool) -> dict[str, Cell]:
    job = {"job": row["id"]} if several else {}
    return {**job, **{name: row[name] for name in results.parameters}}


def _thinned(curve: OwnCurve, every: int) -> tuple[list[float], list[float]]:
    """Return steps and values, of seven digits: the first of so many points, and the last one."""
    cut = slice(None, None, every) if len(curve.steps) > every else slice(-1, None)
    steps, values = [*curve.steps[cut]], [*curve.values[cut]]
    if curve.steps and steps[-1] != curve.steps[-1]:
        steps, values = [*steps, curve.steps[-1]], [*values, curve.values[-1]]
    return steps, [float(f"{value:.7g}") for value in values]
