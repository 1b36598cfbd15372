"""Schedules: batches of jobs, and cron rules. Their records are in the store, so they survive a restart. No I/O.

Cron times are wall-clock times. The next time is stored, so a clock that jumps back does not repeat a run. Used by
``loop``, ``reactor`` and ``schedule_changes``.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

from msgspec.structs import replace as changed

from grass.model.event_kind import EventKind
from grass.model.exhaustive import assert_never
from grass.model.job import Job
from grass.model.reasons import Reason, ReasonCode
from grass.model.schedule import Missed, Overlap, ScheduleKind
from grass.wire.job_record import first_record
from grass.wire.schedule_record import ScheduleRecord, ScheduleState
from grass.wire.schedule_record import first_record as first_schedule_record
from grass.wire.tickets import StartSchedule
from master.agent import jobs
from master.agent.agenda import WALL_CHECK
from master.agent.cron import next_time
from master.agent.state import JobRun
from master.agent.step import Step

RUNS_KEPT = 20
"""How many of its latest runs the record of a cron rule lists."""
LATE = 60.0
"""Seconds after which a run that did not start on time counts as missed."""


def start(step: Step, ticket: StartSchedule, entry_id: str) -> None:
    """Start a schedule. Job ids are derived from ``entry_id``, so a ticket that is taken twice starts nothing twice."""
    schedule, user = ticket.schedule, ticket.user
    present = step.cluster.schedules.get(schedule.name)
    problem = None
    if present is not None and present.goes_on:
        problem = "it is active already"
    elif present is not None and present.user != user:
        problem = f"a schedule of {present.user} has this name"
    if problem is not None:
        step.event(
            EventKind.SCHEDULE_REFUSED,
            f"schedule {schedule.name}: not started; {problem}",
            user,
            schedule=schedule.name,
        )
        return
    record = first_schedule_record(schedule, user)
    step.event(EventKind.SCHEDULE_STARTED, f"schedule {schedule.name}: started", user, schedule=schedule.name)
    match schedule.kind:
        case ScheduleKind.CRON:
            record = changed(record, next=next_time(schedule.cron or "", schedule.time_zone, step.wall))
            arm(step, record)
        case ScheduleKind.BATCH:
            record = start_batch(step, record, entry_id)
        case _:
            assert_never(schedule.kind)
    keep(step, record)


def start_batch(step: Step, record: ScheduleRecord, seed: str) -> ScheduleRecord:
    """Start the jobs of a batch, except those whose name an active job has. Return the new record."""
    found = {job.name: _submit(step, record, job, seed) for job in record.spec.jobs}
    skipped = [name for name, job_id in found.items() if job_id is None]
    if skipped:
        message = f"skipped jobs whose name an active job has: {', '.join(skipped)}"
        record = changed(record, reason=Reason(ReasonCode.OVERLAP, message))
    started = tuple(job_id for job_id in found.values() if job_id is not None)
    # a batch ends with its last job, so one without jobs is done at once
    if not started:
        return changed(record, jobs=started, state=ScheduleState.DONE, ended=step.wall)
    return changed(record, jobs=started, state=ScheduleState.ACTIVE, ended=None)


def stop(step: Step, name: str, user: str) -> None:
    """Stop a schedule. A cron rule starts no more runs, its current run goes on; the jobs of a batch are stopped."""
    record = step.cluster.schedules.get(name)
    if record is None or not record.goes_on:
        return
    keep(step, changed(record, state=ScheduleState.STOPPED, next=None, pending=False, ended=step.wall))
    step.event(EventKind.SCHEDULE_STOPPED, f"schedule {name}: stopped", user, schedule=name)
    if record.kind is ScheduleKind.BATCH:
        for run in list(step.cluster.jobs.values()):
            if run.id in record.jobs:
                jobs.stop(step, run, user, None)


def arm(step: Step, record: ScheduleRecord) -> None:
    """Set the timer for the next run of a cron rule."""
    if record.state is ScheduleState.ACTIVE and record.next is not None:
        wait = min(WALL_CHECK, max(0.0, record.next - step.wall))
        step.agenda.add(step.now + wait, "schedule", record.name)


def due(step: Step, name: str) -> None:
    """Start the next run of a cron rule if it is due; otherwise set the timer again."""
    record = step.cluster.schedules.get(name)
    if record is None or record.state is not ScheduleState.ACTIVE or record.next is None:
        return
    if step.wall < record.next:
        arm(step, record)
        return
    schedule, planned = record.spec, record.next
    record = changed(record, next=next_time(schedule.cron or "", schedule.time_zone, step.wall))
    if step.wall - planned > LATE and schedule.missed is Missed.SKIP:
        step.event(
            EventKind.SCHEDULE_MISSED,
            f"schedule {name}: run missed, because the cluster was not running at its time",
            schedule=name,
        )
    else:
        record = fire(step, record)
    keep(step, record)
    arm(step, record)


def after_run(step: Step, schedule_name: str) -> None:
    """Handle the end of a schedule's run: start the postponed run, or complete the batch."""
    record = step.cluster.schedules.get(schedule_name)
    if record is None or not record.goes_on:
        return
    if record.pending:
        keep(step, fire(step, changed(record, pending=False)))
    elif record.kind is ScheduleKind.BATCH and not set(step.cluster.queue).intersection(record.jobs):
        keep(step, changed(record, state=ScheduleState.DONE, ended=step.wall))


def expire(step: Step) -> None:
    """Remove schedules that have ended, as jobs: those beyond the newest ``keep_jobs``, and those older than
    ``keep_days``."""
    ended = [record for record in step.cluster.schedules.values() if not record.goes_on]
    newest_first = sorted(ended, key=lambda record: record.ended or step.wall, reverse=True)
    for position, record in enumerate(newest_first):
        old = step.wall - (record.ended or step.wall) > step.limits.keep_days * 86400
        if position >= step.limits.keep_jobs or old:
            remove(step, record)


def remove(step: Step, record: ScheduleRecord) -> None:
    """Have the record deleted. Jobs of the schedule stay."""
    del step.cluster.schedules[record.name]
    step.changes.removed_schedules[record.name] = record.user


def keep(step: Step, record: ScheduleRecord) -> None:
    """Have the record written."""
    step.cluster.schedules[record.name] = record
    step.changes.schedules.add(record.name)


def fire(step: Step, record: ScheduleRecord) -> ScheduleRecord:
    """Start the rule's job now, or do what its ``overlap`` says. Return the new record."""
    schedule = record.spec
    job = replace(schedule.jobs[0], name=schedule.name)
    live = step.cluster.live.get(job.name)
    if live is not None:
        present = step.cluster.jobs[live]
        if present.schedule != schedule.name or present.user != record.user:
            # whatever ``overlap`` says: this schedule may not stop that job, and its end starts no run here
            message = f"skipped: job {job.name}, started outside this schedule, is still active"
            step.event(EventKind.SCHEDULE_SKIPPED, f"schedule {schedule.name}: {message}", schedule=schedule.name)
            return changed(record, reason=Reason(ReasonCode.OVERLAP, message))
        match schedule.overlap:
            case Overlap.SKIP:
                step.event(
                    EventKind.SCHEDULE_SKIPPED,
                    f"schedule {schedule.name}: skipped; its previous run is still active",
                    schedule=schedule.name,
                )
                return record
            case Overlap.REPLACE:
                jobs.stop(step, present, f"schedule {schedule.name}", None)
                return changed(record, pending=True)
            case Overlap.QUEUE:
                return changed(record, pending=True)
            case _:
                assert_never(schedule.overlap)
    runs = record.runs + 1
    job_id = _submit(step, record, job, f"{schedule.name}:{runs}:{record.user}:{step.wall}")
    known = (*record.jobs, job_id) if job_id is not None else record.jobs
    return changed(record, pending=False, reason=None, last=step.wall, runs=runs, jobs=known[-RUNS_KEPT:])


def _submit(step: Step, record: ScheduleRecord, job: Job, seed: str) -> str | None:
    """Admit the job. Return its id, or None if a job of that name is active."""
    if job.name in step.cluster.live:
        return None
    job_id = f"{job.name}-{hashlib.sha256(f'{seed}/{job.name}'.encode()).hexdigest()[:8]}"
    first = first_record(job, job_id=job_id, user=record.user, now=step.wall, schedule=record.name)
    run = JobRun.new(job, first)
    run.listed = None
    step.changes.submitted[job_id] = run
    jobs.admit(step, run)
    return job_id
