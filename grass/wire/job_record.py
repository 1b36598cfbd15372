"""The record of one run of a job. The API writes the first version, with the ticket; later only the master-agent."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from grass.model.job import Job
from grass.model.lifecycle import JobState, TaskState
from grass.model.reasons import Reason
from grass.wire.codec import Form
from grass.wire.moment import Moment


class ComponentRecord(msgspec.Struct, frozen=True):
    replicas: int
    counts: dict[TaskState, int]
    """State → number of tasks. States without tasks are left out."""
    reason: Reason | None = None
    """Why its pending tasks wait."""


class Outcome(NamedTuple):
    """The state in which a STOPPING job ends once no attempt is left. As JSON: a list."""

    state: JobState
    reason: Reason | None
    exit_code: int | None


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """By job id in the hash ``jobs``."""

    id: str
    name: str
    user: str
    state: JobState
    reason: Reason | None = None
    """Why it waits, or how it ended."""
    submitted: float
    """Seconds since the epoch, as ``started`` and ``ended``."""
    started: float | None = None
    ended: float | None = None
    exit_code: int | None = None
    counts: dict[TaskState, int] = {}
    """State → number of tasks, of all components."""
    components: dict[str, ComponentRecord] = {}
    restarts: int = 0
    """Restarts of all its tasks."""
    schedule: str | None = None
    """Name of the schedule that started it."""
    warnings: tuple[str, ...] = ()
    """Warnings of the API at submission."""
    outcome: Outcome | None = None
    deadline: Moment | None = None
    """End of its time limit."""
    met: tuple[int, ...] = ()
    """Indexes in ``Job.after`` of the conditions that were met."""


JOB: Form[Job] = Form(Job)
JOB_RECORD: Form[JobRecord] = Form(JobRecord)


def first_record(
    job: Job,
    *,
    job_id: str,
    user: str,
    now: float,
    warnings: tuple[str, ...] = (),
    schedule: str | None = None,
    reason: Reason | None = None,
) -> JobRecord:
    """Return the record of a job that was just accepted: all its tasks are PENDING."""
    components = {
        name: ComponentRecord(part.replicas, {TaskState.PENDING: part.replicas})
        for name, part in job.components.items()
    }
    return JobRecord(
        id=job_id,
        name=job.name,
        user=user,
        state=JobState.QUEUED,
        reason=reason,
        submitted=now,
        counts={TaskState.PENDING: job.task_count},
        components=components,
        schedule=schedule,
        warnings=warnings,
    )
