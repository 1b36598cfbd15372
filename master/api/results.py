"""The results of a job, one row for each task: `GET /v1/jobs/{job}/results`. Used by ``handlers``."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from grass.errors import NotFoundError
from grass.model.job import Component, Job
from grass.model.key_text import checked_attempt_parts
from grass.model.lifecycle import TaskState
from grass.model.reasons import ReasonCode
from grass.model.secrets import is_secret, shown_parameter
from grass.model.task_values import values_of_all
from grass.system import clock
from grass.wire.job_record import JobRecord
from grass.wire.keys import TaskKey
from grass.wire.own_curves import (
    INDEX,
    OWN_INDEX,
    OWN_NOTES,
    SUMMARIES,
    OwnIndex,
    OwnNotes,
    Summary,
    last_field,
    notes_field,
)
from grass.wire.result_views import ResultRow, ResultsView
from grass.wire.task_record import TaskRecord
from grass.wire.usage import UsageSample
from master.api.call import Call
from master.api.job_changes import find_job
from master.api.jobs import known_tasks
from master.api.views import specification

SENT_WITHIN = 1.0
"""Seconds after the end of a task within which its node has sent its figures."""
MOST_RUNS = 20
"""Earlier runs that are looked at for tasks that a rerun did not start again."""


@dataclass(frozen=True)
class Said:
    """What a task reported of itself."""

    figures: dict[str, Summary] = field(default_factory=dict)
    notes: OwnNotes = field(default_factory=OwnNotes)


@dataclass(frozen=True)
class _Done:
    """What is known of a task. ``run``: the earlier run in which it succeeded."""

    task: TaskRecord
    said: Said
    run: str = ""


def job_results(call: Call, job: str) -> ResultsView:
    record = find_job(call, job)
    spec = call.api.store.spec(record.id)
    if spec is None:
        raise NotFoundError(f"job {record.name}: not found; it is being deleted")
    await_reports(call, record)
    known = known_tasks(call, record, spec)
    indexes = {name: record.components[name].indexes for name in spec.components}
    shown = specification(spec, values=call.sees_values(record.user))
    said, index = _said(call, record, {str(key): task for key, task in known.items()})
    secrets = _secrets(spec)
    earlier = _earlier(call, record, {key for key, task in known.items() if is_carried(task)})
    never = TaskRecord(TaskState.STOPPED if record.state.ended else TaskState.PENDING)
    rows = []
    for name, part in spec.components.items():
        for number, values in zip(indexes[name], values_of_all(part, indexes[name]), strict=True):
            key = TaskKey(name, number)
            done = earlier.get(key) or _Done(known.get(key, never), said.get(str(key), Said()))
            rows.append(_row(str(key), done, values, secrets))
    settings = {name: _settings(part) for name, part in shown.components.items()}
    return ResultsView(record.id, record.name, record.tags, settings, tuple(rows), index.unkept > 0, index.left_out)


def is_carried(task: TaskRecord) -> bool:
    return task.reason is not None and task.reason.code is ReasonCode.CARRIED


def _earlier(call: Call, record: JobRecord, wanted: set[TaskKey]) -> dict[TaskKey, _Done]:
    """Return what earlier runs know of tasks that succeeded there."""
    found: dict[TaskKey, _Done] = {}
    for previous, known in earlier_runs(call, record, wanted):
        said, _index = _said(call, previous, {str(key): task for key, task in known.items()})
        found |= {key: _Done(task, said.get(str(key), Said()), previous.id) for key, task in known.items()}
    return found


def earlier_runs(
    call: Call, record: JobRecord, wanted: set[TaskKey]
) -> Iterator[tuple[JobRecord, dict[TaskKey, TaskRecord]]]:
    """Yield earlier runs with those of the wanted tasks that succeeded there, until one is gone or is not the caller's
    to see."""
    for _ in range(MOST_RUNS):
        previous = call.api.store.run(record.rerun_of) if wanted and record.rerun_of is not None else None
        spec = call.api.store.spec(previous.id) if previous is not None and call.sees(previous.user) else None
        if previous is None or spec is None:
            break
        known = known_tasks(call, previous, spec)
        here = {key: known[key] for key in wanted if key in known and not is_carried(known[key])}
        yield previous, here
        wanted, record = wanted - here.keys(), previous


def await_reports(call: Call, record: JobRecord) -> None:
    """Wait until nodes have sent what tasks reported just before the end of their job."""
    if record.ended is not None:
        clock.sleep(min(SENT_WITHIN, max(0.0, record.ended + SENT_WITHIN - call.api.wall())))


def _said(call: Call, record: JobRecord, tasks: Mapping[str, TaskRecord]) -> tuple[dict[str, Said], OwnIndex]:
    """Return task → what it reported, also what the monitor has not written yet, and what the job has in all."""
    history = call.api.store.history
    fields = [field_of(task) for field_of in (last_field, notes_field) for task in tasks]
    nodes = {task.node for task in tasks.values() if task.node is not None}
    texts, unwritten = history.with_unwritten(history.keys.job_history(record.id), [INDEX, *fields], nodes)
    index = OWN_INDEX.decode(texts[INDEX]) if INDEX in texts else OwnIndex()
    found = {}
    for task in tasks:
        figures, notes = texts.get(last_field(task)), texts.get(notes_field(task))
        if figures or notes:
            known = SUMMARIES.decode(figures) if figures else {}
            found[task] = Said(known, OWN_NOTES.decode(notes) if notes else OwnNotes())
    for sample in unwritten:
        add_reported(found, sample, record.id, index)
    return found, index


def add_reported(said: dict[str, Said], sample: UsageSample, job_id: str, index: OwnIndex) -> None:
    """Add what tasks of a job reported in a sample, as the monitor will."""
    for point in sample.own:
        if (known := _of(said, point.key, job_id)) is not None:
            index.summarize(known.figures, point.name, point.step, point.value)
    for lost in sample.not_finite:
        if (known := _of(said, lost.key, job_id)) is not None:
            known.notes.not_finite[lost.name] = known.notes.not_finite.get(lost.name, 0) + lost.count
    for each in sample.parameters:
        if (known := _of(said, each.key, job_id)) is not None:
            known.notes.parameters.update(each.values)
    for trouble in sample.troubles:
        if (known := _of(said, trouble.key, job_id)) is not None:
            known.notes.add_trouble(trouble.text, trouble.count)


def _of(said: dict[str, Said], key: str, job_id: str) -> Said | None:
    """Return what a task has reported; None: the attempt is of another job, or is none."""
    parts = checked_attempt_parts(key)
    return None if parts is None or parts[0] != job_id else said.setdefault(f"{parts[1]}.{parts[2]}", Said())


def _row(key: str, done: _Done, values: dict[str, str], secrets: Collection[str]) -> ResultRow:
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
        figures={name: (each.last, each.least, each.greatest) for name, each in done.said.figures.items()},
        parameters={name: shown_parameter(name, text, secrets) for name, text in done.said.notes.parameters.items()},
        not_finite=done.said.notes.not_finite,
        troubles=done.said.notes.troubles,
    )


def _secrets(spec: Job) -> set[str]:
    """Return the values of the variables that hold secrets."""
    parts = spec.components.values()
    return {text for part in parts for name, text in {**dict(part.shell), **part.env}.items() if is_secret(name)}


def _settings(part: Component) -> dict[str, str]:
    command = part.command if isinstance(part.command, str) else " ".join(part.command)
    return {**part.env, "command": command}
