"""Schedules: a batch of jobs, or a cron rule. The rule lives in the store; a restart goes on where it was. Pure.

Cron times are wall-clock times by nature. A clock that jumps back does not repeat a run: the next time is stored.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

from grass.model.job import Job
from grass.model.schedule import Missed, Overlap, Schedule, ScheduleKind
from grass.store.records import job_record
from master.agent import jobs
from master.agent.cron import next_time
from master.agent.recover import new_run
from master.agent.step import Step

LATE = 60.0
"""Seconds after its time from which a run counts as missed."""
LONGEST_WAIT = 30.0
"""The wall clock is looked at this often at least, because it may jump."""


def start(step: Step, wire: dict[str, Any], user: str, ticket: str) -> None:
    """``ticket`` makes the ids of the jobs, so that the same ticket never makes two."""
    schedule = Schedule.from_wire(wire)
    present = step.cluster.schedules.get(schedule.name)
    if present is not None and present["state"] == "ACTIVE":
        step.event("schedule-refused", f"schedule {schedule.name} is active already", user, schedule=schedule.name)
        return
    record: dict[str, Any] = {
        "name": schedule.name,
        "state": "ACTIVE",
        "kind": schedule.kind.value,
        "user": user,
        "cron": schedule.cron,
        "time_zone": schedule.time_zone,
        "next": None,
        "last": None,
        "jobs": [],
        "reason": None,
        "spec": wire,
        "pending": False,
        "runs": 0,
    }
    step.cluster.schedules[schedule.name] = record
    step.changes.schedules.add(schedule.name)
    step.event("schedule-started", f"schedule {schedule.name} started", user, schedule=schedule.name)
    if schedule.kind is ScheduleKind.CRON:
        record["next"] = next_time(schedule.cron or "", schedule.time_zone, step.wall)
        arm(step, record)
        return
    skipped = [job.name for job in schedule.jobs if not _submit(step, record, job, ticket)]
    if skipped:
        message = f"not started, because a job of that name has not ended: {', '.join(skipped)}"
        record["reason"] = _overlap(message)
    if not record["jobs"]:
        record["state"] = "DONE"  # no run of it will ever end


def stop(step: Step, name: str, user: str) -> None:
    """A cron rule starts nothing more, its present run goes on; the jobs of a batch are stopped."""
    record = step.cluster.schedules.get(name)
    if record is None or record["state"] != "ACTIVE":
        return
    record.update(state="STOPPED", next=None, pending=False)
    step.changes.schedules.add(name)
    step.event("schedule-stopped", f"schedule {name} stopped", user, schedule=name)
    if record["kind"] == ScheduleKind.BATCH.value:
        for run in list(step.cluster.jobs.values()):
            if run.id in record["jobs"]:
                jobs.stop(step, run, user, None)


def arm(step: Step, record: dict[str, Any]) -> None:
    if record["state"] == "ACTIVE" and record["next"] is not None:
        wait = min(LONGEST_WAIT, max(0.0, record["next"] - step.wall))
        step.agenda.add(step.now + wait, "schedule", record["name"])


def due(step: Step, name: str) -> None:
    """The time of a rule may have come."""
    record = step.cluster.schedules.get(name)
    if record is None or record["state"] != "ACTIVE" or record["next"] is None:
        return
    if step.wall < record["next"]:
        arm(step, record)
        return
    schedule = Schedule.from_wire(record["spec"])
    planned = record["next"]
    record["next"] = next_time(schedule.cron or "", schedule.time_zone, step.wall)
    step.changes.schedules.add(name)
    if step.wall - planned > LATE and schedule.missed is Missed.SKIP:
        step.event("schedule-missed", f"{name}: its time passed while the cluster was away", schedule=name)
    else:
        _fire(step, schedule, record)
    arm(step, record)


def ended(step: Step, schedule_name: str) -> None:
    """A run of a schedule ended: start the one that was put off, or see that the batch is done."""
    record = step.cluster.schedules.get(schedule_name)
    if record is None:
        return
    if record["pending"] and record["state"] == "ACTIVE":
        record["pending"] = False
        step.changes.schedules.add(schedule_name)
        _fire(step, Schedule.from_wire(record["spec"]), record)
    elif record["kind"] == ScheduleKind.BATCH.value and record["state"] == "ACTIVE":
        live = set(step.cluster.queue)
        if not live.intersection(record["jobs"]):
            record["state"] = "DONE"
            step.changes.schedules.add(schedule_name)


def _fire(step: Step, schedule: Schedule, record: dict[str, Any]) -> None:
    job = replace(schedule.jobs[0], name=schedule.name)
    live = step.cluster.live.get(job.name)
    if live is not None:
        present = step.cluster.jobs[live].view
        if present.get("schedule") != schedule.name or present["user"] != record["user"]:
            # whatever ``overlap`` says: it is not this schedule's to stop, and its end starts nothing here
            message = f"not started, because another job called {job.name}, no run of this schedule, has not ended"
            record["reason"] = _overlap(message)
            step.event("schedule-skipped", message, schedule=schedule.name)
            return
        match schedule.overlap:
            case Overlap.SKIP:
                step.event("schedule-skipped", f"{job.name}: the run before goes on", schedule=schedule.name)
                return
            case Overlap.REPLACE:
                record["pending"] = True
                jobs.stop(step, step.cluster.jobs[live], f"schedule {schedule.name}", None)
                return
            case Overlap.QUEUE:
                record["pending"] = True
                return
    record.update(pending=False, reason=None, last=step.wall)
    record["runs"] += 1
    _submit(step, record, job, f"{schedule.name}:{record['runs']}:{record['user']}:{step.wall}")
    del record["jobs"][:-20]


def _overlap(message: str) -> dict[str, Any]:
    return {"code": "overlap", "message": message, "details": {}}


def _submit(step: Step, record: dict[str, Any], job: Job, seed: str) -> bool:
    if job.name in step.cluster.live:
        return False
    job_id = f"{job.name}-{hashlib.sha256(f'{seed}/{job.name}'.encode()).hexdigest()[:8]}"
    view = job_record(
        job, job_id=job_id, user=record["user"], now=step.wall, warnings=[], schedule=record["name"], reason=None
    )
    run = new_run(job, view)
    step.changes.submitted[job_id] = run
    record["jobs"].append(job_id)
    jobs.admit(step, run)
    return True
