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


def unfinished(record: JobRecord, job: Job, tasks: Mapping[TaskKey, TaskRecord]) -> Job:
    """Return the job that starts the tasks that did not succeed. ``tasks``: all that the run has started or carried.

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
    if sum(map(len, done.values())) == job.task_count:
        raise ConflictError(f"job {record.name}: all of its tasks succeeded; repeat them without --failed")
    return replace(job, carried=carried)


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
