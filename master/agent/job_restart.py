"""Starting a whole job again after it failed (``restart`` of the job). Pure.

Called by ``jobs`` at the end of a job, by the reactor when the wait is over, by ``planner_snapshot`` and ``recover``.
The numbers of attempts continue, so the logs of earlier attempts stay, and no attempt key is used twice.
"""

from __future__ import annotations

from grass.backoff import wait_after
from grass.model.event_kind import EventKind
from grass.model.lifecycle import JobState, TaskState, check_task
from grass.model.reasons import Reason, ReasonCode
from grass.wire.task_record import TaskRecord
from master.agent import job_end, task_dependencies
from master.agent.component_run import ComponentRun, Counts
from master.agent.state import JobRun
from master.agent.step import Step

MOST_BACKOFF = 300.0
"""Seconds before a restart of a job, at most."""


def wanted(run: JobRun) -> bool:
    """Return whether a job that is about to end with its outcome starts again instead."""
    assert run.outcome is not None
    state, reason, code = run.outcome
    if state is not JobState.FAILED or reason is None or reason.code is not ReasonCode.COMPONENT_FAILED:
        return False
    component = reason.details["task"].rpartition(".")[0]
    final = run.job.components[component].instructs(code) or "repeated_on" in reason.details
    return not (run.delete or final) and run.tries < run.job.ending.restart.limit


def start_again(step: Step, run: JobRun) -> None:
    """Put the job back into the queue. No attempt of it is on a node any more. The caller has moved it to QUEUED."""
    assert run.outcome is not None and run.outcome.reason is not None
    policy, failure = run.job.ending.restart, run.outcome.reason.message
    run.outcome, run.deadline = None, None
    run.tries += 1
    for component in run.components.values():
        reset(step, run, component)
    wait = wait_after(run.tries, policy.backoff, MOST_BACKOFF)
    text = f"{failure}; the job starts again in {wait:g} s (restart {run.tries} of {policy.limit})"
    run.reason = Reason(ReasonCode.BACKOFF, text, {"seconds": wait})
    run.not_before = step.later(wait)
    step.agenda.add(run.not_before.at, "again", run.id)
    if run.last_deadline is not None:  # it may have passed while tasks were being stopped
        step.agenda.add(run.last_deadline.at, "deadline", run.id)
    job_end.plan_notices(step.agenda, run)
    step.touch_job(run)
    step.event(EventKind.JOB_RESTARTS, f"job {run.name}: {text}", job=run.name, run=run.id)
    step.changes.plan = True


def reset(step: Step, run: JobRun, component: ComponentRun) -> None:
    """Make all tasks of the component pending. Tasks that were assigned before are started again first.

    Those that an earlier run has done, or a user stopped before their first attempt, stay as they are.
    """
    kept = {index: task for index, task in component.tasks.items() if _stays_ended(task)}
    begun = {index: task for index, task in component.tasks.items() if index not in kept}
    for index, task in begun.items():
        if task.state is not TaskState.PENDING:
            check_task(task.state, TaskState.PENDING)
        task.state, task.restarts, task.not_before, task.ready = TaskState.PENDING, 0, None, False
        step.changes.tasks[run.id, component.spec.name, index] = task
    component.counts = Counts()
    component.counts[TaskState.PENDING] = component.size - len(kept)
    for task in kept.values():
        component.counts[task.state] += 1
    component.ready = component.backoff = 0
    component.ran = False
    component.requeued = sorted(begun)
    component.next_index = max((*begun, *component.holes), default=-1) + 1
    component.skipped = sum(1 for index in kept if index >= component.next_index)
    if component.closed is not None:
        component.close()
        task_dependencies.review(step, run)
    component.joining = frozenset()
    component.entering.clear()
    component.reason = component.avoid = None
    component.setbacks = {}


def _stays_ended(task: TaskRecord) -> bool:
    """Return whether a task ended without an attempt in this run, for another reason than the end of the job."""
    cut_off = task.reason is not None and task.reason.code is ReasonCode.JOB_ENDED
    return task.state.ended and not task.attempt and not cut_off


def due(step: Step, run: JobRun) -> None:
    """Let the job start: its wait is over."""
    if run.not_before is not None and run.not_before.at <= step.now:
        run.not_before = None
        step.touch_job(run)
        step.changes.plan = True


def waits(run: JobRun) -> Reason | None:
    """Return why a job that is to start again may not start yet, or None."""
    if run.not_before is None:
        return None
    if run.reason is not None and run.reason.code is ReasonCode.BACKOFF:
        return run.reason
    # it was held or suspended meanwhile, and its reason said so
    limit = run.job.ending.restart.limit
    return Reason(ReasonCode.BACKOFF, f"waits until it starts again (restart {run.tries} of {limit})")
