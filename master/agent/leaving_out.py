"""Leaving out of a round what deciding failed on, saying so to users, and trying it again. No I/O (``aside.py``)."""

from __future__ import annotations

from grass.model.exhaustive import assert_never
from grass.model.lifecycle import JobState
from grass.model.reasons import ReasonCode
from master.agent.agenda import Agenda
from master.agent.aside import Aside, Work
from master.agent.step import Step

LOOK = 1.0
"""Seconds between looks whether anything has changed, while something is left out."""


def leave_out(step: Step, work: Work, error: BaseException) -> None:
    """Set aside what failed, say so, and see to it that it is tried again."""
    cluster = step.cluster
    left = cluster.aside.leave_out(work, error, step.now)
    look_later(step.agenda, cluster.aside, left.until)
    run = cluster.jobs.get(work.name)
    if run is None:
        step.event("set-aside", f"{work.name or work.item}: {left.reason.message}")
        return
    if work.kind == "settle" and run.state in (JobState.RUNNING, JobState.STOPPING):
        run.reason = left.reason
    step.touch_job(run)
    step.event("job-set-aside", f"{run.name}: {left.reason.message}", job=run.name)


def try_again(step: Step) -> None:
    """Let in what has waited long enough, if anything has changed since."""
    cluster = step.cluster
    if cluster.aside.look_at is not None and cluster.aside.look_at <= step.now:
        cluster.aside.look_at = None
    for work in cluster.aside.ripe(step.now):
        run = cluster.jobs.get(work.name)
        match work.kind:
            case "plan" | "settle" if run is not None:
                if run.state is JobState.RUNNING and run.reason and run.reason.code is ReasonCode.SET_ASIDE:
                    run.reason = None
                step.touch_job(run)
            case "plan" | "settle" | "leave" | "due":
                pass
            case _:
                assert_never(work.kind)
        step.changes.plan = True
    if cluster.aside:
        look_later(step.agenda, cluster.aside, step.now + LOOK)


def look_later(agenda: Agenda, aside: Aside, at: float) -> None:
    """Look whether anything may be tried again, unless that is done before: looks must not add up over the days."""
    if aside.look_at is None or at < aside.look_at:
        aside.look_at = at
        agenda.add(at, "retry")
