"""`/v1/jobs/{job}/attempts`: pages of the attempts of a job's tasks. Used by ``handlers``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from grass.errors import InputError, NotFoundError, UndecodableError
from grass.wire.attempt_record import attempt_of, field_of
from grass.wire.job_views import AttemptsView, AttemptView
from grass.wire.keys import TaskKey
from grass.wire.task_record import TaskRecord
from master.api.call import Call
from master.api.job_changes import find_job
from master.api.redaction import Redaction
from master.api.views import attempt_view

_MOST_READ = 50_000
"""Most attempts that are looked up for one page. Only a job with very many restarts has attempts that are not kept."""
_READ_AT_ONCE = 1000


def list_attempts(call: Call, job: str) -> AttemptsView:
    """List a page of attempts by task, oldest first. Tasks that were never assigned have none."""
    record = find_job(call, job)
    tasks = {key: task for key, task in _tasks(call, record.id, record.name).items() if task.attempt}
    attempts = _attempts_after(tasks, call.query["after"])
    found: list[AttemptView] = []
    limit, read, redaction = int(call.query["limit"]), 0, Redaction(call)
    while len(found) < limit and read < _MOST_READ:
        piece = list(islice(attempts, min(_READ_AT_ONCE, limit - len(found))))
        if not piece:
            return AttemptsView(tuple(found))
        newest = {field_of(key, tasks[key].attempt): attempt_of(tasks[key]) for key, _ in piece if tasks[key].node}
        earlier = [field for key, number in piece if (field := field_of(key, number)) not in newest]
        known = call.api.store.attempts(record.id, earlier) | newest
        named = ((key, known.get(field_of(key, number))) for key, number in piece)
        found += (
            attempt_view(key, attempt, redaction.reason(attempt.reason))
            for key, attempt in named
            if attempt is not None
        )
        read += len(piece)
    return AttemptsView(tuple(found), field_of(*piece[-1]))


def _attempts_after(tasks: Mapping[TaskKey, TaskRecord], after: str | None) -> Iterator[tuple[TaskKey, int]]:
    """Yield task and number of each attempt after a cursor, also of attempts that are no longer kept."""
    begin = (TaskKey("", 0), 0) if after is None else _cursor(after)
    for key in sorted(tasks):
        if key >= begin[0]:
            first = begin[1] + 1 if key == begin[0] else 1
            yield from ((key, number) for number in range(first, tasks[key].attempt + 1))


def _tasks(call: Call, job_id: str, job: str) -> dict[TaskKey, TaskRecord]:
    names = call.query["task"]
    if names is None:
        return call.api.store.tasks(job_id)
    return call.api.store.some_tasks(job_id, [_task(job, name) for name in names.split(",")])


def _task(job: str, name: str) -> str:
    try:
        return str(TaskKey.parse(name))
    except UndecodableError as error:
        raise NotFoundError(f"job {job}: {name!r} is not a task; write COMPONENT.INDEX") from error


def _cursor(text: str) -> tuple[TaskKey, int]:
    task, _, number = text.partition("/")
    try:
        return TaskKey.parse(task), int(number) if number.isascii() and number.isdecimal() and len(number) < 10 else 0
    except UndecodableError as error:
        raise InputError(f"query parameter after: {text!r} names no attempt; pass on `after` of a page") from error
