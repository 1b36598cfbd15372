"""Jobs that wait for other jobs (``after``). What was met stays met, whatever becomes of the other's record. Pure."""

from __future__ import annotations

from grass.model.job import After
from grass.model.lifecycle import JobState
from grass.model.reasons import Reason, ReasonCode
from master.agent.state import Cluster, JobRun
from master.agent.step import Step


def admitted(step: Step, run: JobRun) -> None:
    """It may wait for others, and others may wait for it."""
    follow(step.cluster, run)
    _tell(step, run)


def ended(step: Step, other: JobRun) -> None:
    """What waits for it is to be looked at (``look``, when the round settles)."""
    _tell(step, other)


def follow(cluster: Cluster, run: JobRun) -> None:
    for position, after in enumerate(run.job.after):
        if position not in run.met:
            cluster.followers.setdefault(after.job, set()).add(run.id)


def reason(step: Step, run: JobRun) -> Reason | None:
    """What a job still waits for."""
    for position, after in enumerate(run.job.after):
        if position in run.met:
            continue
        other = find(step, run, after)
        aim = "has succeeded" if after.state == "succeeded" else "has ended"
        now = "there is no such job yet" if other is None else f"it is {other.state.value}"
        details = {"job": after.job, "state": after.state}
        return Reason(ReasonCode.AFTER, f"waits until job {after.job} {aim}; {now}", details)
    return None


def _tell(step: Step, other: JobRun) -> None:
    followers = step.cluster.followers
    for key in (other.id, other.name):
        for job_id in sorted(followers.get(key, ())):
            run = step.cluster.jobs.get(job_id)
            if run is None or run.state.ended:
                followers[key].discard(job_id)
            else:
                step.changes.plan = True
                step.touch_job(run)
        if not followers.get(key, True):
            del followers[key]


def look(step: Step, run: JobRun) -> Reason | None:
    """Note what was met. Returns why the job can never begin, when that is so."""
    for position, after in enumerate(run.job.after):
        other = None if position in run.met else find(step, run, after)
        if other is None or not other.state.ended:
            continue
        if after.state == "succeeded" and other.state is not JobState.SUCCEEDED:
            message = f"waited until job {after.job} has succeeded, but it is {other.state.value}"
            details = {"job": other.id, "state": other.state.value}
            return Reason(ReasonCode.AFTER_FAILED, message, details)
        run.met.add(position)
        step.cluster.followers.get(after.job, set()).discard(run.id)
        step.changes.plan = True
        step.touch_job(run)
    return None


def find(step: Step, run: JobRun, after: After) -> JobRun | None:
    """By id, or the latest run of a name."""
    job_id = after.job if after.job in step.cluster.jobs else step.cluster.latest.get(after.job)
    return step.cluster.jobs.get(job_id) if job_id is not None and job_id != run.id else None
