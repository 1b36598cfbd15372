"""How the tasks of a component become more or fewer. Pure: changes a ``ComponentRun`` and nothing else.

Indexes stay unique: a removed task leaves a hole, which the next new task takes. The attempts of an index are numbered
on, because reports name attempts. Called by ``scaling`` and ``stopped_tasks``.
"""

from __future__ import annotations

from collections import deque

from grass.model.lifecycle import TaskState
from grass.wire.task_record import TaskRecord
from master.agent.component_run import ComponentRun


def extend(component: ComponentRun, count: int) -> None:
    """Add tasks that wait for resources like all others."""
    for index in sorted(component.holes)[:count]:
        component.holes -= {index}
        component.tasks[index] = component.blank(index)
        component.put_back(index)
    component.size += count
    component.counts[TaskState.PENDING] += count


def join(component: ComponentRun, count: int) -> list[int]:
    """Add tasks that join: they are not members before their operation commits them. Return their indexes."""
    materialise(component, component.end)
    filled = sorted(component.holes)[:count]
    added = [*filled, *range(component.end, component.end + count - len(filled))]
    component.holes -= set(filled)
    component.size += count
    component.counts[TaskState.PENDING] += count
    component.next_index = component.end
    for index in added:
        component.tasks[index] = component.blank(index)
    component.joining |= set(added)
    component.entering += added
    return added


def join_no_more(component: ComponentRun, indexes: frozenset[int]) -> None:
    """Let tasks that will be removed join no more. All at once: one by one, each would cost a copy of the others."""
    component.joining -= indexes
    component.entering = deque(index for index in component.entering if index not in indexes)


def retire(component: ComponentRun, index: int) -> TaskRecord | None:
    """Remove a task from its component. Return its record if it is still on a node, so that it must be stopped.

    A LOST task must have been given up before, and a task that joins must join no more.
    """
    if index >= component.next_index:
        if (
            index == component.end - 1 and index not in component.tasks
        ):  # never assigned, and the last one: no trace of it remains
            component.size -= 1
            component.counts[TaskState.PENDING] -= 1
            _trim(component)
            return None
        materialise(component, index + 1)
    task = component.tasks[index]
    if not task.attempt and task.state is TaskState.SUCCEEDED:  # carried over from an earlier run, by a shared record
        task = component.tasks[index] = TaskRecord(TaskState.SUCCEEDED)
    _wait_no_more(component, index, task)
    component.counts[task.state] -= 1
    component.ready -= task.ready
    task.ready, task.released = False, True
    component.size -= 1
    component.holes |= {index}
    _trim(component)
    if task.state.on_node:
        component.leaving += 1
        return task
    if task.state is TaskState.PENDING:
        task.state = TaskState.STOPPED
    forget(component, index)
    return None


def forget(component: ComponentRun, index: int) -> None:
    """Keep of a removed task, which is on no node any more, only its record."""
    component.released = component.released or {}
    component.released[index] = component.tasks.pop(index)


def _wait_no_more(component: ComponentRun, index: int, task: TaskRecord) -> None:
    if index in component.requeued:
        component.take_back(index)
    elif task.state is TaskState.PENDING and task.not_before is not None:
        component.backoff -= 1
        task.not_before = None


def materialise(component: ComponentRun, end: int) -> None:
    """Make records of the tasks below ``end`` that were never assigned."""
    for index in range(component.next_index, end):
        if index in component.tasks:  # it has ended without being assigned
            component.skipped -= 1
            continue
        component.tasks[index] = component.blank(index)
        component.put_back(index)
    component.next_index = max(component.next_index, end)


def _trim(component: ComponentRun) -> None:
    """Drop holes at the end, so that they are not holes."""
    while component.end - 1 in component.holes:
        component.holes -= {component.end - 1}
    component.next_index = min(component.next_index, component.end)
