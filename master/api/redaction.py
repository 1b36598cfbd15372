"""Redaction of reasons: a user who sees only own jobs learns that another user's job is involved, but not which.

Called wherever records of jobs and tasks leave the API. Names that the user wrote (``after``) stay. Used by this
package.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Literal, TypeVar

from msgspec import structs

from grass.model import feasibility
from grass.model.exhaustive import assert_never
from grass.model.reasons import Reason, ReasonCode
from grass.wire.job_record import JobRecord
from grass.wire.plan_answer import PlanAnswer
from grass.wire.task_record import TaskRecord
from master.api.call import Call

_Job = TypeVar("_Job", JobRecord, PlanAnswer)
_Naming = Literal[ReasonCode.BEHIND, ReasonCode.PREEMPTED, ReasonCode.PREEMPTING]
"""The codes of reasons that may name jobs of other users."""


class Redaction:
    """Redacts for the caller of one call. Looks up each named job once."""

    def __init__(self, call: Call) -> None:
        self._all = call.sees(None)
        self._sees: Callable[[str], bool] = cache(lambda job_id: _own(call, job_id))

    def job(self, job: _Job) -> _Job:
        """Redact the record of a job, or the answer to `grass job plan`, with the reasons of its components."""
        if self._all:
            return job
        parts = {name: structs.replace(part, reason=self.reason(part.reason)) for name, part in job.components.items()}
        return structs.replace(job, reason=self.reason(job.reason), components=parts)

    def task(self, record: TaskRecord) -> TaskRecord:
        """Redact the record of a task."""
        if self._all or record.reason is None:
            return record
        return structs.replace(record, reason=self.reason(record.reason))

    def reason(self, reason: Reason | None) -> Reason | None:
        """Return the reason without jobs that the caller may not see."""
        if self._all or reason is None:
            return reason
        match reason.code:
            case ReasonCode.BEHIND | ReasonCode.PREEMPTED | ReasonCode.PREEMPTING as code:
                return self._redacted(reason, code)
            case (
                ReasonCode.SUBMITTED
                | ReasonCode.JOB_LIMIT
                | ReasonCode.NO_NODES
                | ReasonCode.TOO_LARGE
                | ReasonCode.NO_FREE_RESOURCES
                | ReasonCode.DEPENDS_ON
                | ReasonCode.BACKOFF
                | ReasonCode.PARALLELISM
                | ReasonCode.AFTER
                | ReasonCode.QUOTA
                | ReasonCode.CONSTRAINTS
                | ReasonCode.GANG
                | ReasonCode.SET_ASIDE
                | ReasonCode.DRAINED
                | ReasonCode.RELEASED
                | ReasonCode.SUSPENDED
                | ReasonCode.RESTARTED
                | ReasonCode.REPLACED
                | ReasonCode.BELOW_MINIMUM
                | ReasonCode.IMAGE
                | ReasonCode.NOT_READY
                | ReasonCode.PROBE
                | ReasonCode.PROTOCOL
                | ReasonCode.VERSION
                | ReasonCode.DISK
                | ReasonCode.RUNTIME
                | ReasonCode.SHARE
                | ReasonCode.FLOOD
                | ReasonCode.SHUTDOWN
                | ReasonCode.POWERED_OFF
                | ReasonCode.STUCK
                | ReasonCode.CHECK
                | ReasonCode.EXIT_CODE
                | ReasonCode.SIGNAL
                | ReasonCode.CANNOT_START
                | ReasonCode.TIMEOUT
                | ReasonCode.STOP_CODE
                | ReasonCode.COMPONENT_FAILED
                | ReasonCode.USER_STOPPED
                | ReasonCode.CHECKING
                | ReasonCode.HELD
                | ReasonCode.PUT_OFF
                | ReasonCode.CARRIED
                | ReasonCode.JOB_ENDED
                | ReasonCode.EXIT_UNKNOWN
                | ReasonCode.PORT_TAKEN
                | ReasonCode.OVERLAP
                | ReasonCode.AFTER_FAILED
                | ReasonCode.NODE_LOST
                | ReasonCode.NODE_REBOOTED
                | ReasonCode.NODE_STOPPED
                | ReasonCode.UNRECORDED
                | ReasonCode.UNSCHEDULABLE
                | ReasonCode.NAMESPACE_QUOTA
                | ReasonCode.NAMESPACE_QUEUE
                | ReasonCode.GANG_INCOMPLETE
                | ReasonCode.NOT_STARTED
                | ReasonCode.EVICTED
            ):
                return reason  # names no job of another user
            case _:
                assert_never(reason.code)

    def _redacted(self, reason: Reason, code: _Naming) -> Reason:
        details = reason.details.copy()
        named = [*details.pop("jobs", ()), *([details.pop("job")] if "job" in details else [])]
        seen = [job_id for job_id in named if self._sees(job_id)]
        if len(seen) == len(named):
            return reason
        if seen:
            details["jobs"] = seen
        return Reason(code, _message(code, seen, details.get("tasks", 0)), details)


def _own(call: Call, job_id: str) -> bool:
    record = call.api.store.run(job_id)
    return record is not None and call.sees(record.user)


def _message(code: _Naming, seen: list[str], tasks: int) -> str:
    match code:
        case ReasonCode.BEHIND:
            return feasibility.behind("a job of another user")
        case ReasonCode.PREEMPTED:
            return "preempted by a job of another user, which has a higher priority"
        case ReasonCode.PREEMPTING:
            own = f"{feasibility.named_jobs(seen, 2)} and " if seen else ""
            return feasibility.preempting(tasks, f"{own}jobs of other users")
        case _:
            assert_never(code)
