"""Dependencies of jobs on other jobs (``after``). A condition that was met stays met. Pure.

Called by ``jobs``, ``planner_snapshot``, ``preview`` and ``recover``.
"""

from __future__ import annotations

from typing import NamedTuple

from grass.model.job import After, AfterState
from grass.model.reasons import Reason, ReasonCode
from master.agent import task_dependencies
from master.agent.state import Cluster, JobRun
from master.agent.step import Step

AIMS = {AfterState.SUCCEEDED: "succeeds", AfterState.FAILED: "fails", AfterState.ENDED: "ends"}


class Unmet(NamedTuple):
    """A condition that cannot be met any more."""

    wanted: AfterState
    reason: Reason


def admitted(step: Step, run: JobRun) -> None:
    """Register a new job with the jobs it waits for, and mark the jobs that wait for it."""
    follow(step.cluster, run)
    mark_followers(step, run)


def follow(cluster: Cluster, run: JobRun) -> None:
    """Register a job with the jobs it still waits for."""
    for position, after in enumerate(run.job.after):
        if position not in run.met:
            cluster.followers.setdefault(after.job, set()).add(run.id)
            if after.same_tasks:
                cluster.task_followers.setdefault(after.job, set()).add(run.id)


def reason(step: Step, run: JobRun) -> Reason | None:
    """Return which other job a job still waits for, or None."""
    for position, after in enumerate(run.job.after):
        other = None if position in run.met else find(step, run, after)
        if position in run.met or (after.same_tasks and other is not None):
            continue
        aim = AIMS[after.state]
        now = "no such job exists yet" if other is None else f"that job is {other.state.value}"
        message = f"waits until job {after.job} {aim}; {now}"
        return Reason(ReasonCode.AFTER, message, {"job": after.job, "state": after.state.value})
    return None


def followers(step: Step, other: JobRun) -> list[JobRun]:
    """Return the queued jobs that wait for a job, by its name or id."""
    known, found = step.cluster.followers, list[JobRun]()
    for key in (other.id, other.name):
        for job_id in sorted(known.get(key, ())):
            run = step.cluster.jobs.get(job_id)
            if run is None or run.state.ended:
                known[key].discard(job_id)
            else:
                found.append(run)
        if not known.get(key, True):
            del known[key]
    return found


def mark_followers(step: Step, other: JobRun) -> None:
    """Mark the jobs that wait for a job, so that the round settles them (``note_met``)."""
    for run in followers(step, other):
        step.changes.plan = True
        step.touch_job(run)
        step.cluster.unsettled[run.id] = None


def note_met(step: Step, run: JobRun) -> Unmet | None:
    """Note which conditions are met now. Return which one cannot be met any more, or None."""
    for position, after in enumerate(run.job.after):
        other = None if position in run.met else find(step, run, after)
        if other is not None and after.same_tasks and (problem := _note_tasks(step, run, other)):
            return problem
        if other is None and after.past:
            _met(step, run, position)
        if other is None or not other.state.ended:
            continue
        if not after.same_tasks and not after.state.allows(other.state):
            how = f"{other.state.value} and deleted" if other.delete else other.state.value
            message = f"cannot start: it waited until job {after.job} {AIMS[after.state]}, but that job is {how}"
            reason = Reason(ReasonCode.AFTER_FAILED, message, {"job": other.id, "state": other.state.value})
            return Unmet(after.state, reason)
        run.awaited = {**run.awaited, other.name: other.id}
        _met(step, run, position)
    return None


def _met(step: Step, run: JobRun, position: int) -> None:
    after = run.job.after[position]
    run.met |= {position}
    step.cluster.followers.get(after.job, set()).discard(run.id)
    _discard(step.cluster.task_followers, after.job, run.id)
    step.changes.plan = True
    step.touch_job(run)


def find(step: Step, run: JobRun, after: After) -> JobRun | None:
    """Return the job that ``after`` means: by id, or the latest run of a name."""
    return task_dependencies.find(step.cluster, run, after)


def _note_tasks(step: Step, run: JobRun, other: JobRun) -> Unmet | None:
    """Look at all tasks when the other job is first seen, and at its end. What comes between, ``tasks`` tells."""
    if run.awaited.get(other.name) == other.id and not other.state.ended:
        return None
    if problem := task_dependencies.unequal(run, other):
        return Unmet(
            AfterState.SUCCEEDED, Reason(ReasonCode.AFTER_FAILED, f"cannot start: {problem}", {"job": other.id})
        )
    run.awaited = {**run.awaited, other.name: other.id}
    task_dependencies.review(step, run)
    return None


def forget(cluster: Cluster, run: JobRun) -> None:
    """Forget that tasks of a job that ends wait for others."""
    for after in run.job.after if run.job.follows_tasks else ():
        _discard(cluster.task_followers, after.job, run.id)


def _discard(known: dict[str, set[str]], key: str, job_id: str) -> None:
    if key in known:
        known[key].discard(job_id)
        if not known[key]:
            del known[key]
