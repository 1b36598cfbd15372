"""Scaling of one component: more tasks, or fewer. Pure; ``operations`` calls it, one operation at a time per component.

More: reserve resources for all new tasks, start them, wait until they are ready, then make them members. Until then no
present member notices anything, and a timeout removes only the new tasks. Fewer: choose who leaves, take them out of
the membership, let their framework drain, then stop them.
"""

from __future__ import annotations

from collections.abc import Sequence

from grass.model.exhaustive import assert_never
from grass.model.lifecycle import JobState, TaskState
from grass.model.reasons import Reason, ReasonCode
from grass.model.sizes import SizeError, check_scaling, target_size
from grass.wire.keys import TaskKey
from grass.wire.operation_record import OperationKind, OperationRecord, OperationState, Outcome
from master.agent import earlier_attempts, members, operation_log, sizing, victims, withdrawal
from master.agent.addresses import publish_addresses
from master.agent.allocation import release
from master.agent.component_run import ComponentRun
from master.agent.state import JobRun
from master.agent.step import Step

JOIN_SECONDS = 600.0
"""How long new tasks may take until they are ready, if the user names no deadline."""
DRAIN_SECONDS = 30.0
"""How long tasks with a framework may take to leave by themselves, if the user names no deadline."""


def begin(step: Step, run: JobRun, operation: OperationRecord) -> None:
    """Begin a scaling, or end it at once: as rejected, or because it needs no time."""
    component = run.components[operation.component or ""]
    named, problem = _named(component, operation.named)
    try:
        check_scaling(run.job, component.spec.name, operation.named)
        target = target_size(component.spec, component.size, operation.size, operation.delta, operation.named)
    except SizeError as error:
        problem = problem or str(error)
        target = component.size
    if problem:
        operation_log.end(step, run, operation, Outcome.REJECTED, problem)
        return
    operation = operation_log.change(step, run, operation, from_size=component.size, to_size=target)
    if target == component.size:
        operation_log.end(step, run, operation, Outcome.DONE, f"{component.spec.name} has {_tasks(target)} already")
    elif target > component.size:
        _grow(step, run, component, operation, target - component.size)
    else:
        chosen = victims.choose(step.cluster, component, component.size - target, named)
        _shrink(step, run, component, operation, chosen)
    step.changes.plan = True


def progress(step: Step, run: JobRun, operation: OperationRecord) -> None:
    """Go on with a scaling after something happened to its component."""
    component = run.components[operation.component or ""]
    match operation.state:
        case OperationState.RESERVING | OperationState.STARTING:
            _join(step, run, component, operation)
        case OperationState.DRAINING | OperationState.STOPPING if not component.leaving:
            _left(step, run, component, operation)
        case OperationState.WAITING | OperationState.DRAINING | OperationState.STOPPING | OperationState.ENDED:
            pass
        case _:
            assert_never(operation.state)


def expire(step: Step, run: JobRun, operation: OperationRecord) -> None:
    """The deadline of its present state has passed."""
    component = run.components[operation.component or ""]
    match operation.state:
        case OperationState.RESERVING | OperationState.STARTING:
            missing = [index for index in component.joining if not _arrived(component, index)]
            why = f"; {component.reason.message}" if component.entering and component.reason else ""
            message = f"{len(missing)} of {len(operation.added)} new tasks were not ready in time{why}"
            undo(step, run, operation, Outcome.TIMED_OUT, message)
        case OperationState.DRAINING:
            for index, task in component.tasks.items():
                if task.released and task.state.on_node:
                    withdrawal.stop(step, run, component, index)
            operation_log.change(
                step, run, operation, state=OperationState.STOPPING, deadline=None, message="stops tasks that remain"
            )
        case OperationState.WAITING | OperationState.STOPPING | OperationState.ENDED:
            pass  # these have no deadline
        case _:
            assert_never(operation.state)


def cut_off(step: Step, run: JobRun) -> None:
    """End the scalings of a job that has its outcome, so that size and outcome agree if the whole job starts again."""
    for operation in operation_log.unfinished(run):
        if operation.kind is not OperationKind.SCALE:
            continue
        component = run.components[operation.component or ""]
        match operation.state:
            case OperationState.RESERVING | OperationState.STARTING:
                message = "the job ended before its new tasks were members"
                undo(step, run, operation, Outcome.ROLLED_BACK, message)
                _left(step, run, component, run.operations[operation.id])
            case OperationState.DRAINING:
                message = f"{component.spec.name} has {_tasks(component.size)}; the removed ones end with the job"
                operation_log.end(step, run, operation, Outcome.DONE, message)
            case OperationState.STOPPING:
                _left(step, run, component, operation)
            case OperationState.WAITING | OperationState.ENDED:
                pass
            case _:
                assert_never(operation.state)


def undo(step: Step, run: JobRun, operation: OperationRecord, outcome: Outcome, message: str) -> None:
    """Remove the new tasks that are not members yet. Members are not touched."""
    component = run.components[operation.component or ""]
    gone = sorted(component.joining, reverse=True)
    if operation.partial and operation.generation is not None and outcome is not Outcome.CANCELLED:
        outcome = Outcome.PARTIALLY_DONE
    remove(step, run, component, gone, drain=False)
    reached = f"; {component.spec.name} has {_tasks(component.size)}"
    operation_log.change(
        step,
        run,
        operation,
        state=OperationState.STOPPING,
        outcome=outcome,
        message=message + reached,
        deadline=None,
        removed=_texts(component, gone),
    )
    step.changes.plan = True


def remove(step: Step, run: JobRun, component: ComponentRun, indexes: Sequence[int], drain: bool) -> None:
    """Make tasks leave their component. ``drain``: those on a node are not told to stop yet."""
    name = component.spec.name
    reason = Reason(ReasonCode.RELEASED, f"removed from {name}, which was scaled in")
    sizing.join_no_more(component, frozenset(indexes))
    for index in indexes:
        task = component.tasks.get(index)
        if task is not None and task.state is TaskState.LOST:
            if task.node in step.cluster.nodes:
                step.changes.of_node(task.node).remove_attempt(run.attempt(component, index, task))
                release(step, run, component, index, task)
            component.move(task, TaskState.PENDING)
        on_node = sizing.retire(component, index)
        task = on_node or (component.released or {}).get(index)
        if task is None:
            continue
        task.reason = reason
        step.changes.tasks[run.id, name, index] = task
        if on_node is not None:
            withdrawal.withdraw(step, run, component, index, reason)
            if not drain:
                withdrawal.stop(step, run, component, index)
    if component.spec.ports:
        publish_addresses(step, run)
    step.touch_job(run)


def released(step: Step, run: JobRun, component: ComponentRun, index: int) -> None:
    """A removed task's attempt has ended, or is lost with its node; what it had on the node was released."""
    task = component.tasks[index]
    component.move(task, TaskState.STOPPED)
    task.reason = Reason(ReasonCode.RELEASED, f"removed from {component.spec.name}, which was scaled in")
    sizing.forget(component, index)
    step.changes.tasks[run.id, component.spec.name, index] = task
    step.touch_job(run)


def _grow(step: Step, run: JobRun, component: ComponentRun, operation: OperationRecord, count: int) -> None:
    spec = component.spec
    begun = run.state is JobState.RUNNING
    if not begun or not (spec.elastic or spec.framework is not None):
        sizing.extend(component, count)
        run.grown()
        _write_new(step, run, component)
        waits = "they wait for resources" if begun else "they start with the job"
        operation_log.end(step, run, operation, Outcome.DONE, f"new tasks: {count}; {waits}")
        return
    added = sizing.join(component, count)
    component.whole = not operation.partial
    _write_new(step, run, component)
    operation_log.change(
        step,
        run,
        operation,
        state=OperationState.RESERVING,
        added=_texts(component, added),
        deadline=step.later(JOIN_SECONDS if operation.patience is None else operation.patience),
        message=f"waits for resources for {_tasks(count, 'new ')}",
    )


def _write_new(step: Step, run: JobRun, component: ComponentRun) -> None:
    """Write the records of indexes that had a task before, which says that it was removed. Keep its last attempt."""
    for index in component.released or {}:
        task = component.tasks.get(index)
        if task is not None and task.state is TaskState.PENDING and not task.released:
            step.changes.tasks[run.id, component.spec.name, index] = task
            earlier_attempts.keep(step, run, component, index)


def _join(step: Step, run: JobRun, component: ComponentRun, operation: OperationRecord) -> None:
    ended = (TaskState.FAILED, TaskState.STOPPED)
    failed = [index for index in component.joining if component.tasks[index].state in ended]
    if failed:
        task = component.tasks[min(failed)]
        how = "failed" if task.state is TaskState.FAILED else "was stopped"
        why = task.reason.message if task.reason else "it ended"
        undo(step, run, operation, Outcome.ROLLED_BACK, f"{component.spec.name}.{min(failed)} {how}: {why}")
        return
    arrived = sorted(index for index in component.joining if _arrived(component, index))
    if len(arrived) == len(component.joining):
        _commit(step, run, component, operation, arrived)
        return
    if operation.partial and arrived and len(arrived) + len(component.entering) == len(component.joining):
        whole = len(arrived) - len(arrived) % component.spec.unit
        if whole:
            _commit(step, run, component, operation, arrived[:whole])
            return
    if not component.entering and operation.state is OperationState.RESERVING:
        operation_log.change(step, run, operation, state=OperationState.STARTING, message="starts new tasks")


def _commit(
    step: Step, run: JobRun, component: ComponentRun, operation: OperationRecord, indexes: Sequence[int]
) -> None:
    """Make new tasks members."""
    component.joining -= set(indexes)
    generation = members.publish(step, run, component)
    if component.joining:
        joined = len(operation.added) - len(component.joining)
        message = f"{joined} of {len(operation.added)} new tasks are members; waits for resources for the others"
        operation_log.change(step, run, operation, generation=generation, message=message)
        return
    message = f"{component.spec.name} has {_tasks(component.size)}"
    operation_log.end(step, run, operation, Outcome.DONE, message, generation=generation)


def _shrink(
    step: Step, run: JobRun, component: ComponentRun, operation: OperationRecord, chosen: Sequence[int]
) -> None:
    patience = drain_seconds(component, operation)
    remove(step, run, component, chosen, drain=patience > 0)
    generation = members.publish(step, run, component)
    operation = operation_log.change(
        step, run, operation, removed=_texts(component, chosen), generation=generation or None
    )
    if not component.leaving:
        _left(step, run, component, operation)
        return
    message = f"waits for the end of {_tasks(component.leaving, 'removed ')}"
    operation_log.wait_for_ends(step, run, operation, patience, message)


def _left(step: Step, run: JobRun, component: ComponentRun, operation: OperationRecord) -> None:
    if operation.outcome is not None:
        operation_log.end(step, run, operation, operation.outcome, operation.message)
    else:
        message = f"{component.spec.name} has {_tasks(component.size)}"
        operation_log.end(step, run, operation, Outcome.DONE, message)
    step.changes.plan = True


def drain_seconds(component: ComponentRun, operation: OperationRecord) -> float:
    """Return how long tasks of the component may take to leave by themselves."""
    if component.spec.notice is not None:
        return 0.0  # the node waits until they are done
    framework = component.spec.framework
    default = DRAIN_SECONDS if framework is not None and framework.kind.drains else 0.0
    if operation.patience is None:
        return default
    return min(default, operation.patience) if operation.kind is OperationKind.REPLACE else operation.patience


def _arrived(component: ComponentRun, index: int) -> bool:
    task = component.tasks[index]
    return task.serves or task.state is TaskState.SUCCEEDED


def _named(component: ComponentRun, named: Sequence[str]) -> tuple[set[int], str]:
    """Return the indexes of named tasks, and what is wrong with them."""
    found = set()
    for text in named:
        key = TaskKey.parse(text)
        if key.index >= component.end or key.index in component.holes:
            return set(), f"{text}: the task does not exist any more"
        found.add(key.index)
    return found, ""


def _tasks(count: int, kind: str = "") -> str:
    return f"{count} {kind}task{'' if count == 1 else 's'}"


def _texts(component: ComponentRun, indexes: Sequence[int]) -> tuple[str, ...]:
    return tuple(f"{component.spec.name}.{index}" for index in sorted(indexes))
