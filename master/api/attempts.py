"""`/v1/jobs/{job}/attempts`: every attempt of a job's tasks that is kept."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from grass.errors import NotFoundError, UndecodableError
from grass.wire.attempt_record import AttemptRecord, attempt_of
from grass.wire.keys import TaskKey
from grass.wire.views import AttemptsView, AttemptView
from master.api.call import Call
from master.api.job_changes import find_job
from master.api.redaction import Redaction


def list_attempts(call: Call, job: str) -> AttemptsView:
    """List attempts by task, oldest first. Tasks that were never assigned have none."""
    record = find_job(call, job)
    wanted = _task(record.name, call.query["task"])
    newest = {key: attempt_of(task) for key, task in call.api.store.tasks(record.id).items() if task.attempt}
    earlier = call.api.store.attempts(record.id)
    if wanted is not None:
        newest = {key: attempt for key, attempt in newest.items() if key == wanted}
    redaction = Redaction(call)
    return AttemptsView(tuple(_views(redaction, earlier, newest)))


def _views(
    redaction: Redaction, earlier: dict[TaskKey, list[AttemptRecord]], newest: dict[TaskKey, AttemptRecord]
) -> Iterator[AttemptView]:
    for key in sorted(newest):
        for attempt in (*earlier.get(key, ()), newest[key]):
            fields = structs.asdict(attempt) | {"reason": redaction.reason(attempt.reason)}
            yield AttemptView(task=str(key), **fields)


def _task(job: str, name: str | None) -> TaskKey | None:
    try:
        return None if name is None else TaskKey.parse(name)
    except UndecodableError as error:
        raise NotFoundError(f"job {job}: {name!r} is not a task; write COMPONENT.INDEX") from error
