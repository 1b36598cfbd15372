"""What keeps a job from its turn: a user who holds it back, and a time before which it does not start. Pure.

Called by ``reactor``. A job that has begun meanwhile is left alone, with an event; the API tells the user.
"""

from __future__ import annotations

from datetime import datetime, timezone

from grass.model.event_kind import EventKind
from grass.model.exhaustive import assert_never
from grass.model.lifecycle import JobState
from grass.model.reasons import Reason, ReasonCode
from grass.wire.tickets import HoldJob, QueuedTicket, ReleaseJob
from master.agent.agenda import WALL_CHECK
from master.agent.state import JobRun
from master.agent.step import Step


def change(step: Step, run: JobRun, ticket: QueuedTicket) -> None:
    """Apply the ticket, and plan again."""
    suspended = run.state is JobState.SUSPENDED and isinstance(ticket, ReleaseJob)  # it was held before
    if run.state is not JobState.QUEUED and not suspended:
        kind = ticket.__struct_config__.tag
        text = f"ticket {kind}: refused; job {run.name} is {run.state.value}"
        step.event(EventKind.TICKET_REFUSED, text, ticket.user, job=run.name, run=run.id)
        return
    match ticket:
        case HoldJob(user=user):
            run.held = user
            step.event(EventKind.JOB_HELD, f"job {run.name}: held until it is released", user, job=run.name, run=run.id)
        case ReleaseJob(user=user):
            run.held = run.starts = None
            step.event(EventKind.JOB_RELEASED, f"job {run.name}: released", user, job=run.name, run=run.id)
        case _:
            assert_never(ticket)
    step.changes.plan = True
    step.touch_job(run)


def await_begin(step: Step, run: JobRun) -> None:
    """Let the job start if it is time. If not, look again later, because the wall clock may jump."""
    if run.starts is None:
        return
    if step.wall < run.starts:
        step.agenda.add(step.now + min(WALL_CHECK, run.starts - step.wall), "begin", run.id)
        return
    run.starts = None
    step.changes.plan = True
    step.touch_job(run)


def reason(run: JobRun) -> Reason | None:
    """Return why a queued job does not start that is held, or put off. None: it is neither."""
    if run.state is not JobState.QUEUED:
        return None
    if run.held is not None:
        return Reason(ReasonCode.HELD, f"held by {run.held}; starts after `grass job release {run.name}`")
    if run.starts is not None:
        at = datetime.fromtimestamp(run.starts, timezone.utc)
        return Reason(
            ReasonCode.PUT_OFF, f"starts at {at:%Y-%m-%d %H:%M:%S} UTC, or after `grass job release {run.name}`"
        )
    return None
