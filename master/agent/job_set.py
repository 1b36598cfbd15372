"""Changes the settings of a job that has not ended (`grass job set`). Pure; called by ``reactor``."""

from __future__ import annotations

from grass.model.event_kind import EventKind
from grass.model.job_settings import SettingError, differences
from grass.wire.tickets import SetJob
from master.agent import job_end
from master.agent.state import JobRun
from master.agent.step import Step


def change(step: Step, run: JobRun, ticket: SetJob) -> None:
    """Apply the settings, and plan again. A job that has its result, or cannot have them any more, is left alone."""
    before = run.job
    try:
        if run.state.ended or run.outcome is not None:
            raise SettingError(f"job {run.name}", f"is {run.state.value}")
        after = ticket.settings.applied(before)
    except SettingError as error:
        text = f"ticket set: refused; {error}"
        step.event(EventKind.TICKET_REFUSED, text, ticket.user, job=run.name, run=run.id)
        return
    said = differences(before, after)
    if not said:
        return
    run.job = after
    for name, part in run.components.items():
        part.spec = after.components[name]
    if before.timeout != after.timeout and run.started is not None:
        _move_deadline(step, run, before.timeout)
    step.changes.respecified[run.id] = run
    step.event(EventKind.JOB_SET, f"job {run.name}: {'; '.join(said)}", ticket.user, job=run.name, run=run.id)
    step.changes.plan = True
    step.touch_job(run)


def _move_deadline(step: Step, run: JobRun, before: float | None) -> None:
    """Count the new time limit from where the old one began, or from now if there was none."""
    after, old = run.job.timeout, run.deadline
    if after is None:
        run.deadline = None
        job_end.plan_notices(step.agenda, run)
        return
    run.deadline = step.later(after)
    if old is not None and before is not None:
        run.deadline = old._replace(at=old.at - before + after)
    step.agenda.add(run.deadline.at, "deadline", run.id)
    job_end.plan_notices(step.agenda, run)
