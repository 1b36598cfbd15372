"""Tasks that a user stops while their job goes on (`grass job stop JOB TASK…`). Pure. Called by ``reactor``, ``jobs``
and ``tasks``.

A task that runs is stopped like a preempted one, with the reason ``user-stopped`` in ``TaskRecord.preempted``. Whatever
becomes of its attempt, it never starts again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from grass.errors import UndecodableError
from grass.model.lifecycle import TaskState
from grass.model.reasons import Reason, ReasonCode
from grass.wire.keys import TaskKey
from grass.wire.task_record import TaskRecord
from grass.wire.tickets import StopTasks
from master.agent import sizing, withdrawal
from master.agent.allocation import release
from master.agent.component_run import ComponentRun
from master.agent.state import JobRun
from master.agent.step import Step


def stop(step: Step, run: JobRun, ticket: StopTasks) -> None:
    """Stop the tasks that the ticket names, except those that have ended. The round settles the job at its end."""
    if run.state.ended or run.outcome is not None:
        return
    reason = Reason(ReasonCode.USER_STOPPED, f"stopped by {ticket.user}")
    for component, index in _named(run, ticket.tasks):
        _stop_one(step, run, component, index, reason, ticket.grace)
    step.changes.plan = True
    step.touch_job(run)


def is_stopped(task: TaskRecord) -> bool:
    """Return whether a user, or a time limit of its job, stops the task's present attempt: it must not start again."""
    return task.preempted is not None and task.preempted.code in (ReasonCode.USER_STOPPED, ReasonCode.TIMEOUT)


def reason(components: Iterable[ComponentRun]) -> Reason:
    """Return why a job ends without success: which of the tasks that it needs were stopped, or skipped."""
    stopped = [
        (f"{part.spec.name}.{index}", task)
        for part in components
        for index, task in sorted(part.tasks.items())
        if task.state is TaskState.STOPPED and not task.released
    ]
    name, first = next((each for each in stopped if _failed_code(each[1])), stopped[0])
    others = f" and {len(stopped) - 1} more" if len(stopped) > 1 else ""
    how = first.reason.message if first.reason else "stopped"
    code = _failed_code(first) or ReasonCode.USER_STOPPED
    return Reason(code, f"{name}{others}: {how}", {"tasks": len(stopped)})


def _failed_code(task: TaskRecord) -> ReasonCode | None:
    """Return the code of a reason with which the job of a stopped task has failed."""
    code = None if task.reason is None else task.reason.code
    return code if code in (ReasonCode.AFTER_FAILED, ReasonCode.TIMEOUT) else None


def _named(run: JobRun, names: Iterable[str]) -> Iterator[tuple[ComponentRun, int]]:
    for name in names:
        if (component := run.components.get(name)) is not None:
            yield from ((component, index) for index in range(component.end) if index not in component.holes)
            continue
        try:
            key = TaskKey.parse(name)
        except UndecodableError:
            continue  # the API refuses such names
        component = run.components.get(key.component)
        if component is not None and key.index < component.end and key.index not in component.holes:
            yield component, key.index


def _stop_one(
    step: Step, run: JobRun, component: ComponentRun, index: int, reason: Reason, grace: float | None
) -> None:
    if index not in component.tasks and index in (component.released or {}):
        sizing.materialise(component, index + 1)  # it had attempts before it was removed; their numbers continue
    task = component.tasks.get(index)
    if task is None:
        task = TaskRecord(TaskState.STOPPED, reason=reason)
        component.skip(index, task)
    elif task.state is TaskState.PENDING:
        _stop_pending(component, index, task)
        task.reason = reason
    elif task.state is TaskState.LOST:
        assert task.node is not None
        step.changes.of_node(task.node).remove_attempt(run.attempt(component, index, task))
        release(step, run, component, index, task)
        component.take_back(index)
        component.move(task, TaskState.STOPPED)
        task.reason = reason
    elif task.state.on_node and not task.released:
        withdrawal.withdraw(step, run, component, index, reason)
        withdrawal.stop(step, run, component, index, grace)
    else:
        return
    step.changes.tasks[run.id, component.spec.name, index] = task


def _stop_pending(component: ComponentRun, index: int, task: TaskRecord) -> None:
    if index in component.entering:
        component.entering.remove(index)
    elif task.not_before is None:
        component.take_back(index)
    else:
        component.backoff -= 1
        task.not_before = None
    component.move(task, TaskState.STOPPED)
