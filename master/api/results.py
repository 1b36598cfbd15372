"""The results of a job, one row for each task: `GET /v1/jobs/{job}/results`. Used by ``handlers``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from grass.errors import NotFoundError, UndecodableError
from grass.model.job import Component
from grass.model.lifecycle import TaskState
from grass.model.reasons import ReasonCode
from grass.model.task_values import values_of_all
from grass.system import clock
from grass.wire.job_record import JobRecord
from grass.wire.keys import AttemptKey, TaskKey
from grass.wire.own_curves import INDEX, MOST_FIGURES, OWN_INDEX, SUMMARIES, OwnIndex, Summary, last_field
from grass.wire.result_views import ResultRow, ResultsView
from grass.wire.task_record import TaskRecord
from grass.wire.usage import OwnPoint
from master.api.call import Call
from master.api.job_changes import find_job
from master.api.jobs import known_tasks
from master.api.views import specification

SENT_WITHIN = 1.0
"""Seconds after the end of a task within which its node has sent its figures."""
MOST_RUNS = 20
"""Earlier runs that are looked at for tasks that a rerun did not start again."""


@dataclass(frozen=True)
class _Done:
    """What is known of a task. ``run``: the earlier run in which it succeeded."""

    task: TaskRecord
    figures: Mapping[str, Summary]
    run: str = ""


def job_results(call: Call, job: str) -> ResultsView:
    record = find_job(call, job)
    spec = call.api.store.spec(record.id)
    if spec is None:
        raise NotFoundError(f"job {record.name}: not found; it is being deleted")
    _await_figures(call, record)
    known = known_tasks(call, record, spec)
    indexes = {name: record.components[name].indexes for name in spec.components}
    shown = specification(spec, values=call.sees_values(record.user))
    figures, full = _figures(call, record, {str(key): task for key, task in known.items()})
    earlier = _earlier(call, record, {key for key, task in known.items() if _is_carried(task)})
    never = TaskRecord(TaskState.STOPPED if record.state.ended else TaskState.PENDING)
    rows = []
    for name, part in spec.components.items():
        for index, values in zip(indexes[name], values_of_all(part, indexes[name]), strict=True):
            key = TaskKey(name, index)
            done = earlier.get(key) or _Done(known.get(key, never), figures.get(str(key), {}))
            rows.append(_row(str(key), done, values))
    settings = {name: _settings(part) for name, part in shown.components.items()}
    return ResultsView(record.id, record.name, record.tags, settings, tuple(rows), full)


def _is_carried(task: TaskRecord) -> bool:
    return task.reason is not None and task.reason.code is ReasonCode.CARRIED


def _earlier(call: Call, record: JobRecord, wanted: set[TaskKey]) -> dict[TaskKey, _Done]:
    """Return what earlier runs know of tasks that succeeded there, until one is gone or is not the caller's to see."""
    found: dict[TaskKey, _Done] = {}
    for _ in range(MOST_RUNS):
        previous = call.api.store.run(record.rerun_of) if wanted and record.rerun_of is not None else None
        spec = call.api.store.spec(previous.id) if previous is not None and call.sees(previous.user) else None
        if previous is None or spec is None:
            break
        known = known_tasks(call, previous, spec)
        here = {key for key in wanted if key in known and not _is_carried(known[key])}
        figures, _full = _figures(call, previous, {str(key): known[key] for key in here})
        found |= {key: _Done(known[key], figures.get(str(key), {}), previous.id) for key in here}
        wanted, record = wanted - here, previous
    return found


def _await_figures(call: Call, record: JobRecord) -> None:
    """Wait until nodes have sent what tasks reported just before the end of their job."""
    if record.ended is not None:
        clock.sleep(min(SENT_WITHIN, max(0.0, record.ended + SENT_WITHIN - call.api.wall())))


def _figures(
    call: Call, record: JobRecord, tasks: Mapping[str, TaskRecord]
) -> tuple[dict[str, dict[str, Summary]], bool]:
    """Return task → its figures, and whether the job reported more than are kept. Nodes may have sent some that the
    monitor has not written yet."""
    history = call.api.store.history
    key = history.keys.job_history(record.id)
    unwritten = list(history.unwritten({task.node for task in tasks.values() if task.node is not None}))
    text = history.texts(key, [INDEX]).get(INDEX)
    index = OWN_INDEX.decode(text) if text else OwnIndex()
    texts = history.texts(key, [last_field(task) for task in tasks]) if text else {}
    found = {task: SUMMARIES.decode(text) for task in tasks if (text := texts.get(last_field(task)))}
    add_unwritten(
        found, (point for sample in unwritten for point in sample.own), record.id, MOST_FIGURES - index.figures
    )
    return found, index.unkept > 0


def add_unwritten(figures: dict[str, dict[str, Summary]], points: Iterable[OwnPoint], job_id: str, most: int) -> None:
    """Add the points of a job to the figures of its tasks, as the monitor will. Those that it has written meanwhile
    change nothing. ``most``: new figures that are added."""
    for point in points:
        try:
            key = AttemptKey.parse(point.key)
        except UndecodableError:
            continue  # the monitor leaves it out, too
        if key.job_id != job_id:
            continue
        known = figures.setdefault(str(key.task), {})
        if point.name in known:
            known[point.name].add(point.step, point.value)
        elif most > 0:
            known[point.name] = Summary(point.value, point.value, point.value, point.step)
            most -= 1


def _row(key: str, done: _Done, values: dict[str, str]) -> ResultRow:
    task = done.task
    reason = task.reason if task.state in (TaskState.FAILED, TaskState.LOST) else None
    return ResultRow(
        task=key,
        state=task.state,
        values=values,
        cause=reason.details.get("error", reason.message) if reason is not None else "",
        failure=reason.failure if reason is not None else None,
        exit_code=task.exit_code,
        attempt=task.attempt,
        run=done.run,
        node=task.node,
        started=task.started,
        ended=task.ended,
        cpu=task.usage.cpu if task.usage is not None else None,
        memory=task.usage.memory if task.usage is not None else None,
        figures={name: (each.last, each.least, each.greatest) for name, each in done.figures.items()},
    )


def _settings(part: Component) -> dict[str, str]:
    command = part.command if isinstance(part.command, str) else " ".join(part.command)
    return {**part.env, "command": command}
