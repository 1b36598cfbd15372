"""Operations that end tasks which start again later: suspend, resume, restart, requeue, replace. Pure.

Called by ``operations``. All tasks are withdrawn together; their framework may drain until a deadline; then they are
stopped. How an attempt ends then means nothing: its task is PENDING again.
"""

from __future__ import annotations

from collections.abc import Iterator

from grass.model.exhaustive import assert_never
from grass.model.lifecycle import JobState, TaskState
from grass.model.reasons import Reason, ReasonCode
from grass.wire.keys import TaskKey
from grass.wire.operation_record import OperationKind, OperationRecord, OperationState, Outcome
from grass.wire.task_record import TaskRecord
from master.agent import job_restart, jobs, operation_log, scaling, withdrawal
from master.agent.allocation import release
from master.agent.component_run import ComponentRun
from master.agent.setbacks import could_run_elsewhere
from master.agent.state import JobRun
from master.agent.step import Step
from master.agent.stopped_tasks import is_stopped


def begin(step: Step, run: JobRun, operation: OperationRecord) -> None:
    """Begin such an operation, once it is its turn."""
    match operation.kind:
        case OperationKind.RESUME:
            _resume(step, run, operation)
        case OperationKind.SUSPEND | OperationKind.RESTART | OperationKind.REQUEUE:
            _halt(step, run, operation)
        case OperationKind.REPLACE:
            _replace(step, run, operation)
        case OperationKind.SCALE | OperationKind.DRAIN:
            raise AssertionError(operation.kind)
        case _:
            assert_never(operation.kind)


def progress(step: Step, run: JobRun, operation: OperationRecord) -> None:
    """Go on with such an operation after an attempt of its job has changed."""
    if operation.kind is OperationKind.REPLACE:
        _replacing(step, run, operation)
    elif not run.on_node:
        _halted(step, run, operation)


def expire(step: Step, run: JobRun, operation: OperationRecord) -> None:
    """Take the next step of such an operation at the deadline of its state."""
    match operation.state:
        case OperationState.DRAINING:
            for component, index, task in _withdrawn(run, operation):
                if task.state.on_node:
                    withdrawal.stop(step, run, component, index)
            operation = operation_log.change(
                step,
                run,
                operation,
                state=OperationState.STOPPING,
                deadline=operation.until,
                message="stops tasks that remain",
            )
            if operation.until is not None and operation.until.at <= step.now:
                _time_out(step, run, operation)
        case OperationState.STOPPING | OperationState.STARTING if operation.kind is OperationKind.REPLACE:
            _time_out(step, run, operation)
        case (
            OperationState.WAITING
            | OperationState.RESERVING
            | OperationState.STARTING
            | OperationState.STOPPING
            | OperationState.ENDED
        ):
            pass  # these have no deadline
        case _:
            assert_never(operation.state)


def _time_out(step: Step, run: JobRun, operation: OperationRecord) -> None:
    """End a replacement at its deadline. Its task goes on as any task that must leave its node, or waits."""
    run.components[operation.component or ""].avoid = None
    name, starts = ", ".join(operation.named), "starts on any node as soon as one has enough free resources"
    stops = operation.state is OperationState.STOPPING
    message = f"{name} did not end in time; it is being stopped, then {starts}"
    operation_log.end(
        step,
        run,
        operation,
        Outcome.TIMED_OUT,
        message if stops else f"{name} did not start in time; it {starts}",
    )
    step.changes.plan = True


def _resume(step: Step, run: JobRun, operation: OperationRecord) -> None:
    if run.state is not JobState.SUSPENDED:
        message = f"the job is {run.state.value}, not SUSPENDED; nothing to resume"
        operation_log.end(step, run, operation, Outcome.REJECTED, message)
        return
    jobs.move(step, run, JobState.QUEUED)
    run.reason = Reason(ReasonCode.SUBMITTED, f"resumed by {operation.author}")
    operation_log.end(step, run, operation, Outcome.DONE, "the job is queued again")
    step.changes.plan = True


def _halt(step: Step, run: JobRun, operation: OperationRecord) -> None:
    if run.state is JobState.SUSPENDED:
        hint = f"`grass job resume {run.name}` starts it again"
        operation_log.end(step, run, operation, Outcome.REJECTED, f"the job is suspended already; {hint}")
        return
    if operation.kind is OperationKind.REQUEUE and not any(part.too_few for part in run.components.values()):
        operation_log.end(step, run, operation, Outcome.CANCELLED, "enough tasks run again")
        return
    reason, patience = _reason(operation), 0.0
    for component, index, task in _withdrawn(run, operation):
        seconds = scaling.drain_seconds(component, operation)
        if task.state is TaskState.LOST:
            _give_up(step, run, component, index, task)
        elif task.state.on_node and not task.released and not is_stopped(task):
            patience = max(patience, seconds)
            withdrawal.withdraw(step, run, component, index, reason)
            if seconds <= 0:
                withdrawal.stop(step, run, component, index)
    message = f"waits for the end of {run.on_node} task{'' if run.on_node == 1 else 's'}"
    operation_log.wait_for_ends(step, run, operation, patience, message)
    step.changes.plan = True


def _halted(step: Step, run: JobRun, operation: OperationRecord) -> None:
    """All tasks have ended."""
    for component, index, task in _withdrawn(run, operation):
        if task.state is TaskState.LOST:
            _give_up(step, run, component, index, task)
    jobs.leave_nodes(step, run)
    run.deadline = None
    for component in run.components.values():
        component.below = None
        if operation.kind is OperationKind.RESTART:
            job_restart.reset(step, run, component)
    if operation.kind is OperationKind.SUSPEND:
        jobs.move(step, run, JobState.SUSPENDED)
        message = f"suspended by {operation.author}; `grass job resume {run.name}` starts it again"
        run.reason = Reason(ReasonCode.SUSPENDED, message)
    elif run.state is JobState.RUNNING:
        jobs.move(step, run, JobState.QUEUED)
        run.reason = _reason(operation)
    text = "the job is suspended" if operation.kind is OperationKind.SUSPEND else "the job is queued again"
    operation_log.end(step, run, operation, Outcome.DONE, text)
    step.changes.plan = True


def _replace(step: Step, run: JobRun, operation: OperationRecord) -> None:
    component = run.components[operation.component or ""]
    index = TaskKey.parse(operation.named[0]).index
    task = component.tasks.get(index)
    if task is None or task.released or not task.state.on_node:
        state = "not there" if task is None or task.released else task.state.value
        message = f"{operation.named[0]} is {state}; only a task on a node can be replaced"
        operation_log.end(step, run, operation, Outcome.REJECTED, message)
        return
    if is_stopped(task):
        message = f"{operation.named[0]} is being stopped; it does not start again"
        operation_log.end(step, run, operation, Outcome.REJECTED, message)
        return
    patience = scaling.drain_seconds(component, operation)
    component.avoid = task.node if could_run_elsewhere(step, component, (task.node or "",)) else None
    withdrawal.withdraw(step, run, component, index, _reason(operation))
    if patience <= 0:
        withdrawal.stop(step, run, component, index)
    message = f"waits until the attempt on {task.node} has ended"
    until = None if operation.patience is None else step.later(operation.patience)
    waits = operation_log.wait_for_ends(
        step, run, operation, patience, message, avoid=component.avoid, added=operation.named, until=until
    )
    if waits.state is OperationState.STOPPING:
        operation_log.change(step, run, waits, deadline=until)


def _replacing(step: Step, run: JobRun, operation: OperationRecord) -> None:
    component = run.components[operation.component or ""]
    task = component.tasks.get(TaskKey.parse(operation.named[0]).index)
    if operation.state is not OperationState.STARTING:
        if task is None or task.preempted is None:
            operation_log.change(
                step,
                run,
                operation,
                state=OperationState.STARTING,
                deadline=operation.until or step.later(scaling.JOIN_SECONDS),
                message="waits until it runs on another node" if component.avoid else "waits until it runs again",
            )
            step.changes.plan = True
        return
    if task is None or task.serves or task.state.ended:
        component.avoid = None
        where = f"runs on {task.node}" if task is not None and task.serves else "has ended"
        generation = component.generation or None
        message = f"{operation.named[0]} {where}"
        operation_log.end(step, run, operation, Outcome.DONE, message, generation=generation)


def _withdrawn(run: JobRun, operation: OperationRecord) -> Iterator[tuple[ComponentRun, int, TaskRecord]]:
    """Yield the tasks that the operation is about."""
    for component in run.components.values():
        for index, task in list(component.tasks.items()):
            if not operation.named or f"{component.spec.name}.{index}" in operation.named:
                yield component, index, task


def _give_up(step: Step, run: JobRun, component: ComponentRun, index: int, task: TaskRecord) -> None:
    """Release a LOST attempt, so that it cannot come back with its node. Its task waits already."""
    if task.node in step.cluster.nodes:
        step.changes.of_node(task.node).remove_attempt(run.attempt(component, index, task))
        release(step, run, component, index, task)
    component.move(task, TaskState.PENDING)
    step.changes.tasks[run.id, component.spec.name, index] = task


def _reason(operation: OperationRecord) -> Reason:
    by = operation.author
    match operation.kind:
        case OperationKind.SUSPEND:
            return Reason(ReasonCode.SUSPENDED, f"stopped because the job is being suspended by {by}")
        case OperationKind.RESTART:
            return Reason(ReasonCode.RESTARTED, f"stopped because the job is being restarted by {by}")
        case OperationKind.REPLACE:
            return Reason(ReasonCode.REPLACED, f"is being replaced by {by}")
        case OperationKind.REQUEUE:
            return Reason(ReasonCode.BELOW_MINIMUM, f"the job was queued again: {operation.reason}")
        case OperationKind.SCALE | OperationKind.RESUME | OperationKind.DRAIN:
            raise AssertionError(operation.kind)
        case _:
            assert_never(operation.kind)
