"""The job that repeats an earlier run, or the part of it that did not succeed. Pure. Used by ``job_changes``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from grass.errors import ConflictError
from grass.model.job import Job
from grass.model.lifecycle import TaskState
from grass.wire.job_record import JobRecord
from grass.wire.keys import TaskKey
from grass.wire.task_record import TaskRecord


def whole(record: JobRecord, job: Job) -> Job:
    """Return the job that starts all tasks again. Raises ConflictError if the run is active."""
    _check_ended(record)
    return replace(job, carried={})


def unfinished(record: JobRecord, job: Job, tasks: Mapping[TaskKey, TaskRecord], *, following: bool = False) -> Job:
    """Return the job that starts the tasks that did not succeed. ``tasks``: all that the run has started or carried.

    ``following``: start also all tasks of the components that depend on one that is not done, directly or not.

    Tasks keep their indexes. The tasks of a gang start together, so they are repeated together. Raises ConflictError
    if the run is active or nothing failed.
    """
    _check_ended(record)
    done: dict[str, list[int]] = {}
    for key, task in tasks.items():
        if task.state is TaskState.SUCCEEDED and key.index < job.components[key.component].replicas:
            done.setdefault(key.component, []).append(key.index)
    for name in job.gang:
        if any(len(done.get(each, ())) < job.components[each].replicas for each in job.gang):
            done.pop(name, None)
    carried = {name: _ranges(indexes) for name, indexes in done.items()}
    if following:
        undone = {name for name, part in job.components.items() if len(done.get(name, ())) < part.replicas}
        carried = {name: ranges for name, ranges in carried.items() if not _above(job, name) & undone}
    if sum(map(len, done.values())) == job.task_count:
        raise ConflictError(f"job {record.name}: all of its tasks succeeded; repeat them without --failed")
    return replace(job, carried=carried)


def _above(job: Job, name: str) -> set[str]:
    """Return the components on which one depends, directly or not."""
    found: set[str] = set()
    left = [name]
    while left:
        new = set(job.components[left.pop()].depends_on) - found
        found |= new
        left += new
    return found


def _check_ended(record: JobRecord) -> None:
    if not record.state.ended:
        raise ConflictError(
            f"job {record.name}: still {record.state.value}; wait for its end, or stop it with "
            f"`grass job stop {record.name}`"
        )


def _ranges(indexes: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Return sorted (first, last) ranges that contain exactly these indexes."""
    found: list[tuple[int, int]] = []
    for index in sorted(indexes):
        if found and found[-1][1] == index - 1:
            found[-1] = (found[-1][0], index)
        else:
            found.append((index, index))
    return tuple(found)
