"""The results of a job, one row for each task: `GET /v1/jobs/{job}/results`. Used by ``handlers``."""

from __future__ import annotations

from collections.abc import Mapping

from grass.errors import NotFoundError
from grass.model.job import Component, Job
from grass.model.lifecycle import TaskState
from grass.model.task_values import values_of
from grass.wire.job_record import JobRecord
from grass.wire.keys import TaskKey
from grass.wire.own_curves import INDEX, OWN_INDEX, SUMMARIES, Summary, last_field
from grass.wire.result_views import ResultRow, ResultsView
from grass.wire.task_record import TaskRecord
from master.api.call import Call
from master.api.job_changes import find_job
from master.api.jobs import known_tasks
from master.api.views import specification


def job_results(call: Call, job: str) -> ResultsView:
    record = find_job(call, job)
    spec = call.api.store.spec(record.id)
    if spec is None:
        raise NotFoundError(f"job {record.name}: not found; it is being deleted")
    known = known_tasks(call, record, spec)
    keys = [TaskKey(name, index) for name in spec.components for index in record.components[name].indexes]
    shown = specification(spec, values=call.sees_values(record.user))
    figures, full = _figures(call, record, [str(key) for key in keys])
    never = TaskRecord(TaskState.STOPPED if record.state.ended else TaskState.PENDING)
    rows = tuple(_row(key, spec, known.get(key, never), figures.get(str(key), {})) for key in keys)
    settings = {name: _settings(part) for name, part in shown.components.items()}
    return ResultsView(record.id, record.name, record.tags, settings, rows, full)


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


def _row(key: TaskKey, spec: Job, task: TaskRecord, figures: Mapping[str, Summary]) -> ResultRow:
    reason = task.reason if task.state in (TaskState.FAILED, TaskState.LOST) else None
    return ResultRow(
        task=str(key),
        state=task.state,
        values=values_of(spec.components[key.component], key.index),
        cause=reason.details.get("error", reason.message) if reason is not None else "",
        failure=reason.failure if reason is not None else None,
        exit_code=task.exit_code,
        attempt=task.attempt,
        node=task.node,
        started=task.started,
        ended=task.ended,
        cpu=task.usage.cpu if task.usage is not None else None,
        memory=task.usage.memory if task.usage is not None else None,
        figures={name: (each.last, each.least, each.greatest) for name, each in figures.items()},
    )


def _settings(part: Component) -> dict[str, str]:
    command = part.command if isinstance(part.command, str) else " ".join(part.command)
    return {**part.env, "command": command}
