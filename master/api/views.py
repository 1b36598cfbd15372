"""What the API shows of the records in the store (docs/internals.md): the documented fields, and no others. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from typing import Any

from grass.model.job import Job
from grass.model.lifecycle import JobState, TaskState
from master.api.untyped import pending_task

View = dict[str, Any]

JOB_FIELDS = (
    *("id", "name", "user", "state", "reason", "submitted", "started", "ended", "exit_code", "counts", "components"),
    *("restarts", "schedule", "warnings"),
)
TASK_FIELDS = (
    *("task", "component", "index", "state", "attempt", "node", "exit_code", "signal", "reason", "started", "ended"),
    *("ports", "restarts", "pid", "sizes", "ready", "gpus"),
)
NODE_FIELDS = (
    *("name", "state", "reason", "address", "resources", "free", "tasks", "usage", "version", "seen", "gpus"),
    *("labels", "path", "runtimes", "cordoned", "quarantine"),
)
SCHEDULE_FIELDS = (*("name", "state", "kind", "user", "cron", "time_zone", "next", "last", "jobs", "reason"),)

_ATTENTION = (
    TaskState.FAILED,
    TaskState.LOST,
    TaskState.PENDING,
    TaskState.ASSIGNED,
    TaskState.STARTING,
    TaskState.RUNNING,
)
"""States in the order in which a person looks at tasks; the others come last."""


def job_view(record: View) -> View:
    return _pick(record, JOB_FIELDS)


def node_view(record: View) -> View:
    return _pick(record, NODE_FIELDS)


def schedule_view(record: View) -> View:
    return _pick(record, SCHEDULE_FIELDS)


def ended(record: View) -> bool:
    return JobState(record["state"]).ended


def task_views(record: View, job: Job, known: Mapping[str, View], component: str | None = None) -> list[View]:
    """Every task of the job, in order of component and index. Those without a record were never assigned."""
    chosen = [name for name in job.components if component in (None, name)]
    return [_task(record, known, name, index) for name in chosen for index in range(job.components[name].replicas)]


def first_tasks(record: View, job: Job, known: Mapping[str, View], component: str | None, most: int) -> list[View]:
    """Failed and lost ones first, then what waits and runs, then what is done; within these, in the order of the job.

    Of a wide array only those that are asked for are made.
    """
    rank = {state.value: place for place, state in enumerate(_ATTENTION)}
    never = TaskState.STOPPED if ended(record) else TaskState.PENDING
    places = [
        (rank.get(known[task]["state"] if (task := f"{name}.{index}") in known else never.value, len(rank)), at, index)
        for at, name in enumerate(job.components)
        if component in (None, name)
        for index in range(job.components[name].replicas)
    ]
    names = list(job.components)
    return [_task(record, known, names[at], index) for _, at, index in heapq.nsmallest(most, places)]


def counted_tasks(record: View, job: Job, known: Mapping[str, View]) -> Iterator[tuple[View, int]]:
    """The tasks that were ever assigned, one by one; of those of a component that never were, one and how many."""
    never = {name: component.replicas for name, component in job.components.items()}
    for task in known.values():
        never[task["component"]] -= 1
        yield _as_it_waits(record, task), 1
    for name, count in never.items():
        if count > 0:
            yield _unassigned(record, name, 0), count


def _task(record: View, known: Mapping[str, View], component: str, index: int) -> View:
    task = known.get(f"{component}.{index}")
    return _pick(_as_it_waits(record, task) if task else _unassigned(record, component, index), TASK_FIELDS)


def _as_it_waits(record: View, task: View) -> View:
    """A task that is to be placed again waits for what its component waits for; how its last attempt ended is old."""
    if task["state"] != TaskState.PENDING.value or task["not_before"] is not None:
        return task
    return {**task, "reason": record["components"][task["component"]]["reason"] or task["reason"]}


def _unassigned(record: View, component: str, index: int) -> View:
    if not ended(record):
        return pending_task(component, index, record["components"][component]["reason"] or record["reason"])
    return {**pending_task(component, index, record["reason"]), "state": TaskState.STOPPED.value}


def _pick(record: Mapping[str, Any], fields: tuple[str, ...]) -> View:
    return {name: record.get(name) for name in fields}
