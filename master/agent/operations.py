"""Operations on jobs: one durable record for each change of intent. Pure: all effects are in the step.

``file`` takes a ticket. ``settle`` lets operations begin and go on after anything happened to their job. An operation
waits for earlier ones on the same component; one on the whole job waits for all. The reactor calls this module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from grass.model.event_kind import EventKind
from grass.model.exhaustive import assert_never
from grass.model.lifecycle import JobState
from grass.wire.keys import TaskKey
from grass.wire.operation_record import GRASS, OperationKind, OperationRecord, OperationState, Outcome
from grass.wire.tickets import (
    CancelOperation,
    OperationTicket,
    ReplaceTask,
    RestartJob,
    ResumeJob,
    ScaleJob,
    SuspendJob,
)
from master.agent import halting, jobs, operation_log, repairs, scaling
from master.agent.component_run import ComponentRun
from master.agent.state import JobRun
from master.agent.step import Step

MOST_WAITING = 20
"""Operations of one job that wait. More are rejected, so that the list of them is bounded."""
BELOW_MINIMUM_SECONDS = 30.0
"""How long fewer tasks than ``min`` may run until the whole job is queued again: a short repair must cost little."""


def file(step: Step, run: JobRun, ticket: OperationTicket) -> None:
    """File the operation that a ticket asks for. Repeating it has no effect."""
    if ticket.id in run.operations:
        return
    waiting = len(operation_log.unfinished(run))
    operation = operation_log.file(step, run, _requested(step, run, ticket))
    if run.outcome is not None or run.state.ended:
        operation_log.end(step, run, operation, Outcome.REJECTED, f"the job is {run.state.value}")
    elif operation.component is not None and operation.component not in run.components:
        operation_log.end(step, run, operation, Outcome.REJECTED, f"there is no component {operation.component}")
    elif waiting >= MOST_WAITING:
        operation_log.end(step, run, operation, Outcome.REJECTED, f"{waiting} operations of this job wait already")


def cancel(step: Step, run: JobRun, ticket: CancelOperation) -> None:
    """Cancel an operation that waits, or a scale-out that is not complete. Nothing else can be undone."""
    operation = run.operations.get(ticket.id)
    message = f"cancelled by {ticket.user}"
    if operation is None or not operation.unfinished:
        return
    match operation.state:
        case OperationState.WAITING:
            operation_log.end(step, run, operation, Outcome.CANCELLED, message)
        case OperationState.RESERVING | OperationState.STARTING if operation.kind is OperationKind.SCALE:
            scaling.undo(step, run, operation, Outcome.CANCELLED, message)
        case (
            OperationState.RESERVING
            | OperationState.STARTING
            | OperationState.DRAINING
            | OperationState.STOPPING
            | OperationState.ENDED
        ):
            text = (
                f"job {run.name}: operation {operation.id} is {operation.state.value}; it cannot be cancelled any more"
            )
            step.event(EventKind.OPERATION_NOT_CANCELLED, text, ticket.user, job=run.name, run=run.id)
        case _:
            assert_never(operation.state)


def settle(step: Step, run: JobRun) -> None:
    """Take every step of the job's operations that is possible now. Where one ends, the next may begin, and end."""
    if run.outcome is None and not run.state.ended:
        _check_minimum(step, run)
    if not run.operations:
        return
    before = None
    while (now := [(each.id, each.state) for each in operation_log.unfinished(run)]) != before:
        before = now
        for name in list(run.operations):
            operation = run.operations.get(name)
            if operation is not None and operation.unfinished:
                _go_on(step, run, operation)


def _go_on(step: Step, run: JobRun, operation: OperationRecord) -> None:
    if run.outcome is not None or run.state.ended:
        outcome = operation.outcome or Outcome.CANCELLED
        operation_log.end(step, run, operation, outcome, "the job ended before it was complete")
    elif operation.state is not OperationState.WAITING:
        _work_of(operation).progress(step, run, operation)
    elif not _blocked(run, operation):
        _work_of(operation).begin(step, run, operation)


def due(step: Step, run: JobRun, name: str) -> None:
    """A deadline may have passed: of an operation, or (with no name) of a component that has too few tasks."""
    step.touch_job(run)  # it is settled in this round
    operation = run.operations.get(name)
    if operation is None or operation.deadline is None or operation.deadline.at > step.now:
        return
    _work_of(operation).expire(step, run, operation)


def _requested(step: Step, run: JobRun, ticket: OperationTicket) -> OperationRecord:
    record = OperationRecord(
        id=ticket.id,
        job_id=run.id,
        kind=OperationKind.SCALE,
        author=ticket.user,
        reason=ticket.reason,
        filed=step.wall,
        message="waits for its turn",
    )
    match ticket:
        case ScaleJob():
            return replace(
                record,
                component=ticket.component,
                size=ticket.size,
                delta=ticket.delta,
                named=ticket.remove,
                partial=ticket.partial,
                patience=ticket.deadline,
                rule=ticket.rule,
            )
        case SuspendJob():
            return replace(record, kind=OperationKind.SUSPEND, patience=ticket.deadline)
        case ResumeJob():
            return replace(record, kind=OperationKind.RESUME)
        case RestartJob():
            return replace(record, kind=OperationKind.RESTART, patience=ticket.deadline)
        case ReplaceTask():
            component = TaskKey.parse(ticket.task).component
            kind, named = OperationKind.REPLACE, (ticket.task,)
            return replace(record, kind=kind, component=component, named=named, patience=ticket.deadline)
        case _:
            assert_never(ticket)


def _blocked(run: JobRun, operation: OperationRecord) -> bool:
    """Return whether an earlier operation must end first."""
    for other in operation_log.unfinished(run):
        if other.id == operation.id:
            return False
        concerns = None in (other.component, operation.component) or other.component == operation.component
        if concerns and not other.repairs:
            return True
    return False


_Act = Callable[[Step, JobRun, OperationRecord], None]


class _Work(NamedTuple):
    """What the module of an operation does: when its turn comes, after anything happened, and at its deadline."""

    begin: _Act
    progress: _Act
    expire: _Act


_REPAIR = _Work(repairs.progress, repairs.progress, repairs.expire)  # it has begun when it is filed
_SCALING = _Work(scaling.begin, scaling.progress, scaling.expire)
_HALTING = _Work(halting.begin, halting.progress, halting.expire)


def _work_of(operation: OperationRecord) -> _Work:
    if operation.repairs:
        return _REPAIR
    return _SCALING if operation.kind is OperationKind.SCALE else _HALTING


def _check_minimum(step: Step, run: JobRun) -> None:
    """Queue the whole job again if fewer tasks than ``min`` run for too long, so that it releases its resources."""
    if any(each.kind is OperationKind.REQUEUE for each in operation_log.unfinished(run)):
        return
    for component in run.published:
        if component.spec.min is None:
            continue
        runs = run.state is JobState.RUNNING and run.halting is None
        if not runs or not component.too_few or _not_due(run, component):
            component.below = None
        elif component.below is None:
            component.below = step.now + BELOW_MINIMUM_SECONDS
            step.agenda.add(component.below, "operation", run.id)
        elif component.below <= step.now:
            _requeue(step, run, component)
            return


def _not_due(run: JobRun, component: ComponentRun) -> bool:
    """Return whether the component still waits for another one to start, and so occupies nothing."""
    return component.on_node == 0 and jobs.unmet(run, component.spec) is not None


def _requeue(step: Step, run: JobRun, component: ComponentRun) -> None:
    spec = component.spec
    reason = (
        f"fewer than {spec.min} tasks of {spec.name} run (`min`), and no node has enough free resources for the others"
    )
    for operation in operation_log.unfinished(run):
        if operation.kind is OperationKind.SCALE and operation.state in _SCALING_OUT:
            scaling.undo(step, run, operation, Outcome.ROLLED_BACK, reason)
    component.below = None
    operation_log.file(
        step,
        run,
        OperationRecord(
            id=f"r{run.filed + 1}",
            job_id=run.id,
            kind=OperationKind.REQUEUE,
            author=GRASS,
            reason=reason,
            filed=step.wall,
            message="waits for its turn",
        ),
    )


_SCALING_OUT = (OperationState.RESERVING, OperationState.STARTING)
