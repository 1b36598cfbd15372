"""The operations of a job: file, change, end, and forget old ones. Pure: all effects are in the step.

The lowest layer of operations. ``operations`` decides which one begins; ``scaling``, ``halting`` and ``repairs`` carry
them out. Used by ``halting``, ``operations``, ``repairs`` and ``scaling``.
"""

from __future__ import annotations

from typing import Any

from msgspec import structs

from grass.model.event_kind import EventKind
from grass.model.exhaustive import assert_never
from grass.store.keys import OPERATIONS_KEPT
from grass.wire.operation_record import OperationKind, OperationRecord, OperationState, Outcome
from master.agent.state import JobRun
from master.agent.step import Step


def file(step: Step, run: JobRun, operation: OperationRecord, seconds: float | None = None) -> OperationRecord:
    """Add an operation to its job. It is numbered here. ``seconds``: until its deadline."""
    run.filed += 1
    numbered = structs.replace(operation, number=run.filed)
    if seconds is not None:
        numbered = change(step, run, numbered, deadline=step.later(seconds))
    _keep(step, run, numbered)
    step.event(
        EventKind.OPERATION_FILED,
        f"job {run.name}: {describe(numbered)} filed",
        operation.author,
        job=run.name,
        run=run.id,
    )
    return numbered


def change(step: Step, run: JobRun, operation: OperationRecord, **fields: Any) -> OperationRecord:
    """Replace fields of an operation. Any: each field has its own type. A deadline gets its timer."""
    changed = structs.replace(operation, **fields)
    if changed.deadline is not None and changed.deadline != operation.deadline:
        step.agenda.add(changed.deadline.at, "operation", run.id, changed.id)
    _keep(step, run, changed)
    return changed


def wait_for_ends(
    step: Step, run: JobRun, operation: OperationRecord, patience: float, message: str, **fields: Any
) -> OperationRecord:
    """Have an operation wait until tasks have ended. ``patience``: seconds in which they may leave by themselves."""
    return change(
        step,
        run,
        operation,
        state=OperationState.DRAINING if patience > 0 else OperationState.STOPPING,
        deadline=step.later(patience) if patience > 0 else None,
        message=message,
        **fields,
    )


def end(
    step: Step, run: JobRun, operation: OperationRecord, outcome: Outcome, message: str, **fields: Any
) -> OperationRecord:
    """End an operation, and let the next one begin in this round."""
    ended = change(
        step,
        run,
        operation,
        state=OperationState.ENDED,
        outcome=outcome,
        message=message,
        ended=step.wall,
        deadline=None,
        **fields,
    )
    text = f"job {run.name}: {describe(ended)}: {outcome.value}; {message}"
    step.event(EventKind.OPERATION_ENDED, text, operation.author, job=run.name, run=run.id)
    _forget_old(step, run)
    return ended


def unfinished(run: JobRun) -> list[OperationRecord]:
    """Return the operations that go on or wait, in the order in which they were filed."""
    return [each for each in run.operations.values() if each.unfinished]


def describe(operation: OperationRecord) -> str:
    """Return what an operation does, for events."""
    what = operation.component or "the job"
    match operation.kind:
        case OperationKind.SCALE if operation.to_size is not None:
            return f"operation {operation.id} (scale {what} from {operation.from_size} to {operation.to_size})"
        case OperationKind.REPLACE | OperationKind.DRAIN if operation.named or operation.added:
            return f"operation {operation.id} ({operation.kind.value} {', '.join(operation.named or operation.added)})"
        case (
            OperationKind.SCALE
            | OperationKind.REPLACE
            | OperationKind.RESTART
            | OperationKind.SUSPEND
            | OperationKind.RESUME
            | OperationKind.DRAIN
            | OperationKind.REQUEUE
        ):
            return f"operation {operation.id} ({operation.kind.value} {what})"
        case _:
            assert_never(operation.kind)


def _keep(step: Step, run: JobRun, operation: OperationRecord) -> None:
    run.operations = {**run.operations, operation.id: operation}
    step.changes.operations[run.id, operation.id] = operation
    step.touch_job(run)


def _forget_old(step: Step, run: JobRun) -> None:
    ended = [each for each in run.operations.values() if not each.unfinished]
    for operation in ended[: max(0, len(ended) - OPERATIONS_KEPT)]:
        run.operations = {name: each for name, each in run.operations.items() if name != operation.id}
        step.changes.operations[run.id, operation.id] = None
