"""Tells tasks ahead of a time limit of their job, if their component has a ``notice``. Pure. Called by ``reactor``.

A task that is told is stopped once it is done or its time is over, and does not start again, like one that a user
stops: ``TaskRecord.preempted`` has the reason ``timeout``. One that ends by itself with 0 has succeeded.
"""

from __future__ import annotations

from grass.model.lifecycle import TaskState
from grass.model.reasons import FailureClass, Reason, ReasonCode
from master.agent import job_end, withdrawal
from master.agent.component_run import ComponentRun
from master.agent.state import JobRun
from master.agent.step import Step


def due(step: Step, run: JobRun, component: ComponentRun) -> None:
    """Tell the running tasks of a component, or look again later if the limit has moved."""
    if run.outcome is not None or (at := job_end.notice_at(run, component)) is None:
        return
    if at > step.now:
        step.agenda.add(at, "ahead", run.id, component.spec.name)
        return
    message = f"the time limit of its job is over in {max(0.0, min(job_end.must_end_by(run)) - step.now):.0f} s"
    reason = Reason(ReasonCode.TIMEOUT, message, {"failure": FailureClass.TIMEOUT})
    for index, task in component.tasks.items():
        if task.state is TaskState.RUNNING and task.preempted is None and not task.released:
            withdrawal.withdraw(step, run, component, index, reason)
            withdrawal.stop(step, run, component, index)


def of_job(run: JobRun) -> Reason:
    """Return why a job ends all of whose tasks have ended since they were told, some of them without success."""
    message = f"its tasks have ended ahead of its time limit of {job_end.time_limit(run) or 0:g} s"
    return Reason(ReasonCode.TIMEOUT, message, {"failure": FailureClass.TIMEOUT})
