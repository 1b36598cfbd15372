"""Decides what happens after the end of a job (``on_end``). Pure. Called by ``jobs``.

Each notification is committed with the end, so none is lost; the courier delivers it later (``courier.py``). Events
that the cluster's settings name are notifications, too (``Step.event``).
"""

from __future__ import annotations

import hashlib

from msgspec.structs import replace

from grass.model.event_kind import EventKind
from grass.model.job import Component, Job
from grass.model.names import MAX_NAME
from grass.model.reasons import Reason, ReasonCode
from grass.wire.event_record import EventRecord
from grass.wire.job_record import JobRecord, first_record
from grass.wire.notification import Notification
from master.agent.records import job_record
from master.agent.state import JobRun
from master.agent.step import Step

SUFFIX = "-on-end"
_NAMING = (ReasonCode.BEHIND, ReasonCode.PREEMPTED, ReasonCode.PREEMPTING)
"""Codes of reasons that may name jobs of other users."""


def job_ended(step: Step, run: JobRun, kind: str, message: str) -> None:
    """Notify the receiver of a job's ``on_end``. Called once, when the job has ended."""
    on_end = run.job.on_end
    if on_end is None or on_end.webhook is None or not on_end.follows(run.state):
        return
    found = Notification(
        id=f"{run.id}:end",
        event=EventRecord(step.wall, kind, message, job=run.name, run=run.id),
        record=without_other_jobs(job_record(run)),
        webhook=on_end.webhook,
        secret=on_end.secret,
    )
    step.changes.notifications[found.id] = found


def without_other_jobs(record: JobRecord) -> JobRecord:
    """Return the record without what it waited for: that may name jobs of other users."""
    parts = {name: replace(part, reason=None) for name, part in record.components.items()}
    return replace(record, reason=_own(record.reason), components=parts)


def _own(reason: Reason | None) -> Reason | None:
    return None if reason is not None and reason.code in _NAMING else reason


def submit_command(step: Step, run: JobRun) -> JobRun | None:
    """Return the run of the command of ``on_end``, to be admitted; None: there is none, or one is active."""
    job = follow_up(run)
    if job is None:
        return None
    if job.name in step.cluster.live:
        text = f"job {run.name}: its on_end command was left out, because job {job.name} is active"
        step.event(EventKind.NOTIFICATION_FAILED, text, job=run.name, run=run.id)
        return None
    job_id = f"{job.name}-{hashlib.sha256(run.id.encode()).hexdigest()[:8]}"
    command = JobRun.new(job, first_record(job, job_id=job_id, user=run.user, now=step.wall))
    command.listed = None
    step.changes.submitted[job_id] = command
    return command


def follow_up(run: JobRun) -> Job | None:
    """Return the job that runs the command of ``on_end``: one task, like those of the first component.

    None: there is no command. The command's own end notifies nobody.
    """
    on_end = run.job.on_end
    if on_end is None or on_end.command is None or not on_end.follows(run.state):
        return None
    like, reason = next(iter(run.job.components.values())), _own(run.reason)
    env = {
        **like.env,
        "GRASS_ENDED_JOB": run.name,
        "GRASS_ENDED_JOB_ID": run.id,
        "GRASS_ENDED_STATE": run.state.value,
        "GRASS_ENDED_EXIT_CODE": "" if run.exit_code is None else str(run.exit_code),
        "GRASS_ENDED_REASON": "" if reason is None else reason.message,
    }
    task = Component(
        "on-end",
        on_end.command,
        env=env,
        cwd=like.cwd,
        base=like.base,
        shell=like.shell,
        process=like.process,
        image=like.image,
        runtime=like.runtime,
        container=like.container,
    )
    name = run.name[: MAX_NAME - len(SUFFIX)].rstrip("-._") + SUFFIX
    return Job(
        name,
        {task.name: task},
        (task.name,),
        timeout=3600.0,
        tags=run.job.tags,
        read_only_data=run.job.read_only_data,
    )
