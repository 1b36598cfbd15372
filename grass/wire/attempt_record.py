"""The record of an earlier attempt of a task, kept as long as its job. The newest attempt is in the task's record.

Written by the master-agent in the step that starts the next attempt, so a task with one attempt has none.
"""

from __future__ import annotations

import msgspec

from grass.model.reasons import Reason, ReasonCode
from grass.wire.codec import Form
from grass.wire.keys import TaskKey
from grass.wire.task_record import TaskRecord

ATTEMPTS_KEPT = 100_000
"""Earlier attempts of one job that are kept, all of them up to here. After more restarts, the newest of each task."""
LEAST_KEPT = 20
"""Earlier attempts of each task that are always kept, the newest."""


class AttemptRecord(msgspec.Struct, frozen=True, array_like=True):
    """One earlier attempt. In the hash ``attempts:<job id>``, by ``<component>.<index>/<attempt>``."""

    attempt: int
    node: str | None
    exit_code: int | None
    signal: int | None
    reason: Reason | None
    """Why it ended, unless it succeeded."""
    started: float | None
    """Seconds since the epoch, as ``ended``. None: it never started."""
    ended: float | None
    """None: its end is unknown, because its node was lost."""
    assigned: float | None = None
    """When it got its node."""
    prepared: float | None = None
    """When its image was there. None: it did not wait for an image."""


def attempt_of(task: TaskRecord) -> AttemptRecord:
    """Return the newest attempt of a task. While the task waits for its restart, the reason is that of the end."""
    reason = task.reason
    if reason is not None and reason.code is ReasonCode.BACKOFF:
        reason = reason.details.get("cause")
    return AttemptRecord(
        task.attempt,
        task.node,
        task.exit_code,
        task.signal,
        reason,
        task.started,
        task.ended,
        task.assigned,
        task.prepared,
    )


def field_of(task: TaskKey | str, attempt: int) -> str:
    """Return the field of an attempt."""
    return f"{task}/{attempt}"


def expired_attempt(attempt: int, restarts: int, tasks: int, kept: int = ATTEMPTS_KEPT) -> int | None:
    """Return which attempt of a task is removed when ``attempt`` of it becomes an earlier one; None: none is.

    ``restarts``, ``tasks``: of the whole job. One is removed for each that is added, so a job keeps at most twice
    ``kept``, or ``LEAST_KEPT`` for each task.
    """
    share = kept if restarts <= kept else max(LEAST_KEPT, kept // tasks)
    return attempt - share if attempt > share else None


ATTEMPT_RECORD: Form[AttemptRecord] = Form(AttemptRecord)
