"""The results of a job, one row for each task: `GET /v1/jobs/{job}/results`. Used by ``handlers``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from grass.errors import NotFoundError
from grass.model.job import Component
from grass.model.lifecycle import TaskState
from grass.model.reasons import ReasonCode
from grass.model.task_values import values_of_all
from grass.wire.job_record import JobRecord
from grass.wire.keys import TaskKey
from grass.wire.own_curves import INDEX, OWN_INDEX, SUMMARIES, Summary, last_field
from grass.wire.result_views import ResultRow, ResultsView
from grass.wire.task_record import TaskRecord
from master.api.call import Call
from master.api.job_changes import find_job
from master.api.jobs import known_tasks
from master.api.views import specification

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
    known = known_tasks(call, record, spec)
    indexes = {name: record.components[name].indexes for name in spec.components}
    shown = specification(spec, values=call.sees_values(record.user))
    figures, full = _figures(call, record, [f"{name}.{index}" for name in indexes for index in indexes[name]])
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
        figures, _full = _figures(call, previous, [str(key) for key in here])
        found |= {key: _Done(known[key], figures.get(str(key), {}), previous.id) for key in here}
        wanted, record = wanted - here, previous
    return found


def _figures(call: Call, record: JobRecord, tasks: list[str]) -> tuple[dict[str, dict[str, Summary]], bool]:
    """Return task → its figures, and whether the job reported more than are kept."""
    history = call.api.store.history
    key = history.keys.job_history(record.id)
    index = history.texts(key, [INDEX]).get(INDEX)
    if not index:
        return {}, False
    texts = history.texts(key, [last_field(task) for task in tasks])
    found = {task: SUMMARIES.decode(text) for task in tasks if (text := texts.get(last_field(task)))}
    return found, OWN_INDEX.decode(index).unkept > 0


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
