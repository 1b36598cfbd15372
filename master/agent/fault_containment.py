"""Containment of faults: set work aside on which deciding failed, inform users, and try it again later. No I/O.

Called by the loop and by ``placement`` when they catch an error. The state is in ``set_aside.py``.
"""

from __future__ import annotations

from grass.model.event_kind import EventKind
from grass.model.exhaustive import assert_never
from grass.model.lifecycle import JobState
from grass.model.reasons import ReasonCode
from master.agent.agenda import Agenda
from master.agent.set_aside import SetAsideWork, Work
from master.agent.step import Step

RETRY_INTERVAL = 1.0
"""Seconds between checks whether anything has changed, while work is set aside."""


def contain(step: Step, work: Work, error: BaseException) -> None:
    """Set the failed work aside, record an event, and set a timer to try it again."""
    cluster = step.cluster
    left = cluster.set_aside.add(work, error, step.now)
    check_later(step.agenda, cluster.set_aside, left.until)
    run = cluster.jobs.get(work.name)
    if run is None:
        schedule = work.name if work.name in cluster.schedules else ""
        text = f"{work.name or work.item}: {left.reason.message}"
        step.event(EventKind.SET_ASIDE, text, schedule=schedule)
        return
    if work.kind == "settle" and run.state in (JobState.RUNNING, JobState.STOPPING):
        run.reason = left.reason
    step.touch_job(run)
    step.event(EventKind.JOB_SET_ASIDE, f"{run.name}: {left.reason.message}", job=run.name, run=run.id)


def retry_set_aside(step: Step) -> None:
    """Readmit work that has waited long enough, if anything has changed since it failed."""
    cluster = step.cluster
    if cluster.set_aside.next_check is not None and cluster.set_aside.next_check <= step.now:
        cluster.set_aside.next_check = None
    for work in cluster.set_aside.take_due(step.now):
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
    if cluster.set_aside:
        check_later(step.agenda, cluster.set_aside, step.now + RETRY_INTERVAL)


def check_later(agenda: Agenda, set_aside: SetAsideWork, at: float) -> None:
    """Check at that time what may be tried again, unless a check comes earlier: checks must not add up."""
    if set_aside.next_check is None or at < set_aside.next_check:
        set_aside.next_check = at
        agenda.add(at, "retry")
