"""Usage: `/v1/usage`, and what nodes, jobs and tasks use, now and over time.

Totals are those of the records, plus what running attempts used so far, which their nodes report every 2 s. Curves are
the histories that the monitor keeps; their last point may be 10 s old. Used by ``handlers``.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce

from msgspec import structs

from grass.errors import NotFoundError, UndecodableError
from grass.model.key_text import job_of
from grass.model.lifecycle import NodeState
from grass.wire.job_record import JobRecord
from grass.wire.job_views import TaskView
from grass.wire.keys import AttemptKey, TaskKey
from grass.wire.own_curves import INDEX, OWN_INDEX, OwnIndex, field, most_points, unpack
from grass.wire.task_record import TaskRecord
from grass.wire.usage import TaskSample, TaskTotals
from grass.wire.usage_history import WHOLE_JOB, Chunk, join, level_of
from grass.wire.usage_views import (
    ClusterUsageView,
    Curves,
    JobMetricsView,
    JobUsageView,
    NodeUsageView,
    OwnCurve,
    TaskTotalsView,
    TaskUsageView,
)
from master.api.call import Call
from master.api.job_changes import find_job

POINTS = 450
"""Points of a curve if the caller does not say since when: a quarter of an hour, seven hours, or five days."""


def cluster_usage(call: Call) -> ClusterUsageView:
    return ClusterUsageView(_curves(call, call.api.store.history.keys.cluster_history))


def node_usage(call: Call, node: str) -> NodeUsageView:
    store = call.api.store
    record = store.node(node)
    if record is None or record.state is NodeState.LEFT:
        raise NotFoundError(f"node {node}: not found; `grass node list` lists all nodes")
    newest = store.history.newest(node)
    return NodeUsageView(
        node,
        newest.at if newest else None,
        newest.sample.node if newest else None,
        _visible(call, newest.sample.tasks) if newest else (),
        _curves(call, store.history.keys.node_history(node)),
    )


def job_usage(call: Call, job: str) -> JobUsageView:
    record = find_job(call, job)
    tasks = call.api.store.tasks(record.id)
    running = _running(call, record.id, tasks)
    views = [_task(key, task, running.get(str(key))) for key, task in sorted(tasks.items())]
    most = call.query["first"]
    shown = views if most is None else heapq.nlargest(int(most), views, key=lambda each: _cpu(each.totals))
    history = _curves(call, call.api.store.history.keys.job_history(record.id), WHOLE_JOB)
    return JobUsageView(record.id, record.name, _totals(record, running.values()), tuple(shown), len(views), history)


def task_usage(call: Call, job: str, task: str) -> TaskUsageView:
    record = find_job(call, job)
    try:
        key = TaskKey.parse(task)
    except UndecodableError as error:
        raise NotFoundError(f"job {record.name}: {error.problem}; write a task as COMPONENT.INDEX") from error
    known = call.api.store.some_tasks(record.id, [str(key)]).get(key)
    if known is None:
        raise NotFoundError(f"job {record.name}: task {task} was never assigned to a node, or does not exist")
    running = _running(call, record.id, {key: known})
    history = _curves(call, call.api.store.history.keys.job_history(record.id), str(key))
    return TaskUsageView(record.id, _task(key, known, running.get(str(key))), history)


def job_metrics(call: Call, job: str) -> JobMetricsView:
    record = find_job(call, job)
    history = call.api.store.history
    key = history.keys.job_history(record.id)
    text = history.texts(key, [INDEX]).get(INDEX)
    index = OWN_INDEX.decode(text) if text else OwnIndex()
    names = {field(*each): each for each in index.curves}
    curves = []
    for name, packed in history.texts(key, list(names)).items():
        curve = unpack(packed)
        steps, values, times = (tuple(column) for column in (curve.steps, curve.values, curve.times))
        curves.append(OwnCurve(*names[name], steps, values, times, curve.every))
    figures = max(index.figures, len(curves))
    points, lost = most_points(len(curves)), index.not_finite
    return JobMetricsView(record.id, record.name, tuple(curves), index.dropped, figures, points, lost)


def _visible(call: Call, tasks: Iterable[TaskSample]) -> tuple[TaskSample, ...]:
    """Return the samples of jobs that the caller may see."""
    seen = seen_jobs(call, (task.key for task in tasks))
    return tuple(task for task in tasks if job_of(task.key) in seen)


def seen_jobs(call: Call, keys: Iterable[str]) -> set[str]:
    """Return the ids of those jobs of attempts that the caller may see."""
    jobs = {job_of(key) for key in keys}
    return {record.id for record in call.api.store.runs(list(jobs)) if call.sees(record.user)}


def with_running(call: Call, job_id: str, tasks: Sequence[TaskView]) -> list[TaskView]:
    """Return the tasks, each with what its running attempt used so far added to what the earlier ones used."""
    running = _running(call, job_id, {TaskKey(task.component, task.index): task for task in tasks})
    return [
        structs.replace(task, usage=_sum(task.usage, running[task.task].totals)) if task.task in running else task
        for task in tasks
    ]


def _running(call: Call, job_id: str, tasks: Mapping[TaskKey, TaskRecord | TaskView]) -> dict[str, TaskSample]:
    """Return task → newest sample of its present attempt, from the nodes on which the tasks are.

    The sample of an attempt that has ended is left out, because the record has what it used."""
    present = {
        AttemptKey(job_id, key.component, key.index, task.attempt) for key, task in tasks.items() if task.state.on_node
    }
    found = {}
    for node in {task.node for task in tasks.values() if task.state.on_node and task.node is not None}:
        newest = call.api.store.history.newest(node)
        for sample in newest.sample.tasks if newest else ():
            key = AttemptKey.parse(sample.key)
            if key in present:
                found[str(key.task)] = sample
    return found


def _task(key: TaskKey, task: TaskRecord, now: TaskSample | None) -> TaskTotalsView:
    totals = task.usage if now is None else _sum(task.usage, now.totals)
    return TaskTotalsView(str(key), task.state, task.attempt, task.node, totals, now)


def _sum(earlier: TaskTotals | None, now: TaskTotals) -> TaskTotals:
    return now if earlier is None else earlier.plus(now)


def _totals(record: JobRecord, running: Iterable[TaskSample]) -> TaskTotals | None:
    parts = [*([record.usage] if record.usage else []), *(sample.totals for sample in running)]
    return reduce(TaskTotals.plus, parts) if parts else None


def _cpu(totals: TaskTotals | None) -> float:
    return totals.cpu if totals else -1.0


def _curves(call: Call, key: str, subject: str = "") -> Curves:
    query = call.query
    level = level_of(query["step"])
    until = call.api.wall() if query["until"] is None else query["until"]
    since = until - POINTS * level.step if query["since"] is None else min(query["since"], until)
    chunks: list[Chunk] = call.api.store.history.curve(key, level, since, until, subject)
    start, values = join(level, chunks, since, until)
    return Curves(float(start), float(level.step), {name: tuple(_rounded(curve)) for name, curve in values.items()})


def _rounded(curve: Iterable[float]) -> Iterable[float | None]:
    """Yield the values as exactly as they are kept. None: unknown."""
    return (float(f"{value:.4g}") if value == value else None for value in curve)
