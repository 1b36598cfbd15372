"""Records of repairs: an operation for each time that tasks of an elastic component lose their node. Pure.

The repair itself is the ordinary one: the task waits and is placed again. These operations neither wait for others nor
hold them up. Called where tasks are lost or preempted, and by ``operations`` to see whether they are back. Used by
``operations``, ``preemption`` and ``tasks``.
"""

from __future__ import annotations

from grass.model.lifecycle import JobState
from grass.model.reasons import Reason
from grass.wire.keys import TaskKey
from grass.wire.operation_record import GRASS, Cause, OperationKind, OperationRecord, OperationState, Outcome
from master.agent import operation_log
from master.agent.component_run import ComponentRun
from master.agent.state import JobRun
from master.agent.step import Step

REPAIR_SECONDS = 600.0
"""How long a repair may take until its operation ends as timed out. Its tasks go on waiting."""


def lost(step: Step, run: JobRun, component: ComponentRun, index: int, reason: Reason) -> None:
    """Record that a task's node is lost."""
    _note(step, run, component, OperationKind.REPLACE, GRASS, reason, index)


def preempted(step: Step, run: JobRun, component: ComponentRun, index: int, reason: Reason, user: str = "") -> None:
    """Record that a task must leave its node. ``user``: who drains the node; empty: a job of higher priority comes."""
    kind = OperationKind.DRAIN if user else OperationKind.REPLACE
    _note(step, run, component, kind, user or GRASS, reason, index)


def evicted(step: Step, run: JobRun, component: ComponentRun, index: int, reason: Reason) -> None:
    """Record that Kubernetes ends the pod of a task, as when it drains a machine."""
    _note(step, run, component, OperationKind.DRAIN, GRASS, reason, index)


def progress(step: Step, run: JobRun, operation: OperationRecord) -> None:
    """End the operation if its tasks are back, or need not come back."""
    component = run.components[operation.component or ""]
    if all(_back(component, TaskKey.parse(task).index) for task in operation.added):
        generation = component.generation or None
        operation_log.end(step, run, operation, Outcome.DONE, "all tasks are back", generation=generation)


def expire(step: Step, run: JobRun, operation: OperationRecord) -> None:
    """End a repair that took too long."""
    message = (
        f"some tasks still wait after {REPAIR_SECONDS:g} s; they start as soon as a node has enough free resources"
    )
    operation_log.end(step, run, operation, Outcome.TIMED_OUT, message)


def _note(
    step: Step,
    run: JobRun,
    component: ComponentRun,
    kind: OperationKind,
    author: str,
    reason: Reason,
    index: int,
) -> None:
    spec = component.spec
    concerns = spec.elastic or spec.framework is not None
    if not concerns or run.outcome is not None or run.state is not JobState.RUNNING or index in component.joining:
        return
    task = component.tasks.get(index)
    if task is None or task.released:
        return
    name = f"{spec.name}.{index}"
    cause = Cause(
        reason.code, next((reason.details[by] for by in ("node", "job", "machine") if reason.details.get(by)), "")
    )
    known = _same(run, spec.name, cause)
    if known is not None:
        added = tuple(dict.fromkeys((*known.added, name)))
        operation_log.change(step, run, known, added=added)
        return
    operation_log.file(
        step,
        run,
        OperationRecord(
            id=f"r{run.filed + 1}",
            job_id=run.id,
            component=spec.name,
            kind=kind,
            state=OperationState.STARTING,
            author=author,
            reason=reason.message,
            filed=step.wall,
            added=(name,),
            message="its tasks start again elsewhere",
            cause=cause,
        ),
        seconds=REPAIR_SECONDS,
    )


def _same(run: JobRun, component: str, cause: Cause) -> OperationRecord | None:
    """Return the operation that records this very event already, for another task."""
    for each in operation_log.unfinished(run):
        if (each.component, each.cause) == (component, cause):
            return each
    return None


def _back(component: ComponentRun, index: int) -> bool:
    task = component.tasks.get(index)
    return task is None or task.released or task.state.ended or (task.serves and task.preempted is None)
