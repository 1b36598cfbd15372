"""Histories of the API as charts of the page: which curves belong on one chart, and in which unit. Pure.

Used by ``questions`` and ``report_page``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from grass.model.figures import JOB_DEVICE, OF_JOB, OF_NODE, OF_TASK, Figure
from grass.model.key_text import task_parts
from grass.wire.usage_history import FINE
from grass.wire.usage_views import Curves, JobMetricsView, OwnCurve

Record = dict[str, Any]  # Any: JSON of the charts, which the page's own scripts define
MOST_OWN = 8
"""Tasks whose own curve of one name is shown, the first ones."""


def last(history: Curves, seconds: float) -> Curves:
    """Return the newest part of a history, from the first known value on, without tiny gaps."""
    points = max(1, round(seconds / history.step))
    length = max((len(values) for values in history.curves.values()), default=0)
    known = [
        at for values in history.curves.values() for at, value in enumerate(values) if value is not None
    ]  # what is older than the cluster is not shown
    cut = max(0, length - points, min(known, default=0))
    curves = {name: _whole(values[cut:], history.step) for name, values in history.curves.items()}
    return Curves(history.start + cut * history.step, history.step, curves)


def during(history: Curves, begin: float, end: float) -> Curves:
    """Return what a task used between two times. What it never used is left out."""
    first, last = (max(0, math.floor((time - history.start) / history.step)) for time in (begin, end + history.step))
    shown = {figure.name for figure in OF_TASK if figure.shown_at_zero}
    cut = {name: _whole(values[first:last], history.step) for name, values in history.curves.items()}
    curves = {name: values for name, values in cut.items() if name in shown or any(values)}
    return Curves(history.start + first * history.step, history.step, curves)


def thinned(chart: Record, most: int) -> Record:
    """Return a chart with at most so many points, of five digits. Each stands for some that follow each other."""
    every = max(1, -(-len(chart["x"]) // most))

    def thin(values: Sequence[float | None]) -> list[float | None]:
        parts = (values[at : at + every] for at in range(0, len(values), every))
        known = (next((value for value in part if value is not None), None) for part in parts)
        return [None if value is None else float(f"{value:.5g}") for value in known]

    series = [{**each, "values": thin(each["values"])} for each in chart["series"]]
    return {**chart, "x": chart["x"][::every], "series": series}


def _whole(values: tuple[float | None, ...], step: float) -> tuple[float | None, ...]:
    """In full detail, put the average of its neighbours in the place of each single unknown point.

    A node measures every 2 s; on a busy machine a sample often comes so late that it counts for the next point.
    """
    whole = list(values)
    for at in range(1, len(values) - 1) if step == FINE.step else ():
        before, after = values[at - 1], values[at + 1]
        if values[at] is None and before is not None and after is not None:
            whole[at] = (before + after) / 2
    return tuple(whole)


def node_charts(history: Curves) -> list[Record]:
    return _charts(history, OF_NODE)


def task_charts(history: Curves) -> list[Record]:
    return _charts(history, OF_TASK)


def job_charts(history: Curves) -> list[Record]:
    """Return the charts of the sums over all tasks of a job. GPUs are counted: two that are half busy are one."""
    gpus = tuple(None if value is None else value / JOB_DEVICE for value in history.curves.get("gpu", ()))
    curves = {**history.curves, **({"gpu": gpus} if gpus else {})}
    return _charts(replace(history, curves=curves), OF_JOB)


def capacity(history: Curves) -> Record:
    """Return in percent of the capacity what is in use and what is allocated, of each resource that the cluster has."""
    curves, series = history.curves, []
    for name in ("cpu", "memory", "gpu"):
        whole = curves.get(f"{name}_capacity", ())
        if not any(whole):
            continue
        for curve, label in ((name, f"{name} in use"), (f"{name}_allocated", f"{name} allocated")):
            values = [_percent(value, of) for value, of in zip(curves.get(curve, ()), whole, strict=False)]
            if any(value is not None for value in values):
                series.append({"name": label, "values": values, "dash": label.endswith("allocated")})
    return {"x": _times(history) if series else [], "series": series}


def own_charts(metrics: JobMetricsView) -> list[Record]:
    """Return one chart for each figure that tasks reported, with a curve for each task."""
    by_name: dict[str, list[OwnCurve]] = {}
    for curve in sorted(metrics.curves, key=_of_task):
        by_name.setdefault(curve.name, []).append(curve)
    return [_own_chart(name, curves[:MOST_OWN]) for name, curves in sorted(by_name.items())]


def own_extent(metrics: JobMetricsView) -> dict[str, int]:
    """Return how much of a job's figures the charts show, so that the page says what is left out."""
    tasks = len({curve.task for curve in metrics.curves})
    return {
        "tasks": tasks,
        "drawn": min(tasks, MOST_OWN),
        "curves": len(metrics.curves),
        "figures": metrics.figures,
        "points": metrics.points,
        "dropped": metrics.dropped,
        "not_finite": metrics.not_finite,
    }


@dataclass(frozen=True)
class Run:
    """What is drawn of a run: the history of one task, if there is one."""

    id: str
    started: float
    ended: float | None
    history: Curves | None


def comparison(runs: Sequence[Run]) -> list[Record]:
    """Return the charts of several runs, with a curve for each run. Times are seconds since the start of the run."""
    used = [
        {
            "title": title,
            **_joined({run.id: _since_start(run, name) for run in runs}),
            "unit": unit,
            "time": False,
            "along": "seconds",
        }
        for title, unit, name in (("CPU", "cores", "cpu"), ("Memory", "bytes", "memory"))
    ]
    return [each for each in used if each["x"]]


def _since_start(run: Run, name: str) -> dict[float, float]:
    """Return seconds since the start → value."""
    if run.history is None:
        return {}
    step, values = run.history.step, run.history.curves.get(name, ())
    times = [run.history.start + at * step for at in range(len(values))]
    end = run.ended if run.ended is not None else float("inf")
    return {
        (time - run.started + step / 2) // step * step: value
        for time, value in zip(times, values, strict=False)
        if value is not None and run.started - step < time < end + step
    }


def _joined(curves: Mapping[str, Mapping[float, float]]) -> Record:
    times = sorted({time for curve in curves.values() for time in curve})
    series = [
        {"name": name, "values": [curve.get(time) for time in times], "gaps": True} for name, curve in curves.items()
    ]
    return {"x": times, "series": series}


def _of_task(curve: OwnCurve) -> tuple[str, int]:
    return task_parts(curve.task) or (curve.task, 0)


def _own_chart(name: str, curves: list[OwnCurve]) -> Record:
    steps = sorted({step for curve in curves for step in curve.steps})
    series = []
    for curve in curves:
        values = dict(zip(curve.steps, curve.values, strict=False))
        series.append({"name": curve.task, "values": [values.get(step) for step in steps], "gaps": True})
    return {"title": name, "unit": "number", "x": steps, "series": series, "time": False}


def _charts(history: Curves, figures: Sequence[Figure]) -> list[Record]:
    times, found = _times(history), dict[str, Record]()
    for figure in figures:
        series = [
            {"name": figure.label.format(device), "values": list(values)}
            for name, values in history.curves.items()
            if (device := figure.device(name)) is not None and any(value is not None for value in values)
        ]
        if series and figure.chart:
            chart = {"title": figure.chart, "unit": figure.unit.value, "x": times, "series": []}
            found.setdefault(figure.chart, chart)["series"] += series
    return list(found.values())


def _times(history: Curves) -> list[float]:
    length = max((len(values) for values in history.curves.values()), default=0)
    return [history.start + at * history.step for at in range(length)]


def _percent(value: float | None, whole: float | None) -> float | None:
    return None if value is None or not whole else 100 * value / whole
