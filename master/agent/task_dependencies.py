"""Dependencies of tasks on the tasks of the same index in another job (``after`` with ``tasks: same``). Pure.

Each job has one component, and both have as many tasks. A task is closed (``ComponentRun.closed``) until its own one
has succeeded in every job that it waits for. Called by ``job_dependencies``, ``jobs``, ``planner_snapshot``,
``job_restart``, ``recover`` and ``tasks``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from grass.model.job import After
from grass.model.lifecycle import JobState, TaskState
from grass.model.reasons import Reason, ReasonCode
from grass.wire.task_record import TaskRecord
from master.agent.component_run import ComponentRun
from master.agent.state import Cluster, JobRun
from master.agent.step import Step


class _Gate(NamedTuple):
    """One job that tasks wait for; None: it is not there yet. Afterwards ``undone`` says which have not succeeded."""

    after: After
    other: JobRun | None
    part: ComponentRun | None
    undone: int


def find(cluster: Cluster, run: JobRun, after: After) -> JobRun | None:
    """Return the job that ``after`` means: by id, or the latest run of a name."""
    job_id = after.job if after.job in cluster.jobs else cluster.latest.get(after.job)
    return cluster.jobs.get(job_id) if job_id is not None and job_id != run.id else None


def unequal(run: JobRun, other: JobRun) -> str:
    """Return why tasks of a job cannot wait for those of another one; empty: they can, or it is not known any more."""
    parts, own = list(other.components.values()), _only(run).end
    if len(parts) > 1:
        return f"`tasks: same` needs a job with one component, and job {other.name} has {len(parts)}"
    if parts and parts[0].end != own:
        return (
            f"`tasks: same` needs as many tasks in both jobs; this one has {own}, and job {other.name} {parts[0].end}"
        )
    return ""


def open_tasks(cluster: Cluster, run: JobRun, indexes: Collection[int] | None = None) -> dict[int, Reason]:
    """Open the tasks, by default all, that need not wait any more. Return those that wait in vain, with the reason."""
    component, vain = _only(run), dict[int, Reason]()
    gates = list(_gates(cluster, run))
    for index in sorted(component.closed or ()) if indexes is None else indexes:
        if index not in (component.closed or ()):
            continue
        opened = True
        for gate in gates:
            state = _state(gate, index)
            if state is not None and state.ended and state is not TaskState.SUCCEEDED:
                vain[index] = _skipped(gate, index, state)
            opened = opened and state is TaskState.SUCCEEDED
        if opened:
            component.open(index)
    return vain


def review(step: Step, run: JobRun, indexes: Collection[int] | None = None) -> None:
    """Open tasks that need not wait any more, and skip those that wait in vain."""
    _skip(step, run, open_tasks(step.cluster, run, indexes))
    step.changes.plan = True
    step.touch_job(run)


def _skip(step: Step, run: JobRun, vain: dict[int, Reason]) -> None:
    """End tasks that can never start."""
    component = _only(run)
    for index, reason in vain.items():
        task = TaskRecord(TaskState.STOPPED, reason=reason)
        component.skip(index, task)
        step.changes.tasks[run.id, component.spec.name, index] = task


def task_ended(step: Step, other: JobRun, index: int) -> None:
    """Open, or skip, the tasks that wait for a task which has just ended for good, or may have."""
    known = step.cluster.task_followers
    for key in (other.id, other.name) if known else ():
        for job_id in sorted(known.get(key, ())):
            run = step.cluster.jobs.get(job_id)
            if run is not None and run.outcome is None and not run.state.ended:
                review(step, run, (index,))


def note_undone(run: JobRun) -> None:
    """Keep of a job that ends which of its tasks have not succeeded. Later jobs may ask for it."""
    if len(run.components) != 1 or (run.state is JobState.SUCCEEDED and not _failures(_only(run))):
        return
    part = _only(run)
    bits = bytearray(part.end // 8 + 1)
    for index in range(part.end):
        task = part.tasks.get(index)
        if task is None or task.state is not TaskState.SUCCEEDED:
            bits[index // 8] |= 1 << index % 8
    run.undone = f"{int.from_bytes(bits, 'little'):x}" if any(bits) else ""


def waiting(run: JobRun, component: ComponentRun) -> Reason | None:
    """Return for which tasks the closed tasks of a component wait, or None."""
    closed = len(component.closed or ())
    if not closed:
        return None
    names = [after.job for number, after in enumerate(run.job.after) if after.same_tasks and number not in run.met]
    tasks = "1 task waits for" if closed == 1 else f"{closed:,} tasks wait, each for"
    message = f"{tasks} the task of the same index in job {' and '.join(names)}"
    return Reason(ReasonCode.AFTER, message, {"job": names[0] if names else "", "state": "succeeded"})


def _only(run: JobRun) -> ComponentRun:
    return next(iter(run.components.values()))


def _failures(part: ComponentRun) -> int:
    return part.size - part.counts[TaskState.SUCCEEDED]


def _gates(cluster: Cluster, run: JobRun) -> Iterator[_Gate]:
    """Yield the jobs that tasks still wait for."""
    for number, after in enumerate(run.job.after):
        if not after.same_tasks or number in run.met:
            continue
        other = find(cluster, run, after)
        part = next(iter(other.components.values()), None) if other is not None and not other.state.ended else None
        undone = int(other.undone or "0", 16) if other is not None else 0
        if other is not None and other.state.ended and other.state is not JobState.SUCCEEDED and not undone:
            undone = -1  # an older Grass did not keep it
        yield _Gate(after, other, part, undone)


def _state(gate: _Gate, index: int) -> TaskState | None:
    """Return how the task ended for good that a task waits for. None: it has not."""
    if gate.other is None:
        return None
    if gate.part is None:
        return TaskState.STOPPED if gate.undone >> index & 1 else TaskState.SUCCEEDED
    task = gate.part.tasks.get(index)
    starts_again = gate.other.job.ending.restart.limit and not gate.other.state.ended
    if task is None or not task.state.ended or (starts_again and task.state is not TaskState.SUCCEEDED):
        return None
    return None if task.reason is not None and task.reason.code is ReasonCode.JOB_ENDED else task.state


def _skipped(gate: _Gate, index: int, state: TaskState) -> Reason:
    assert gate.other is not None
    other = gate.other
    if gate.part is None:
        message = f"skipped: it waited for task {index} of job {other.name}, which did not succeed"
    else:
        message = f"skipped: it waited for task {other.name}.{gate.part.spec.name}.{index}, which is {state.value}"
    return Reason(ReasonCode.AFTER_FAILED, message, {"job": other.id, "state": state.value})
