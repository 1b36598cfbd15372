"""The ranks of tasks that work together, as their membership has them. Pure; used by ``jobs``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import structs

from grass.model.framework import FrameworkName
from grass.model.job import Component, Job
from grass.model.lifecycle import TaskState
from grass.model.ranks import rank_key
from grass.wire.job_record import JobRecord
from grass.wire.job_views import TaskView
from grass.wire.keys import TaskKey
from grass.wire.task_record import TaskRecord

_PRESENT = (TaskState.ASSIGNED, TaskState.RUNNING, TaskState.SUCCEEDED)


def have_ranks(record: JobRecord, spec: Job) -> list[str]:
    """Return the components whose tasks have ranks now: those of a framework, and elastic ones."""
    return [] if record.state.ended else [name for name, part in spec.components.items() if _works_together(part)]


def with_ranks(
    tasks: Iterable[TaskView],
    record: JobRecord,
    names: Sequence[str],
    known: Mapping[TaskKey, TaskRecord],
    paths: Mapping[str, Sequence[str]],
) -> Iterator[TaskView]:
    """Yield the tasks with their ranks. ``names``: components that have ranks. ``paths``: topology of nodes."""
    ranks: dict[str, int] = {}
    for name in names:
        joining = record.components[name].joining
        present = [
            (key.index, task)
            for key, task in known.items()
            if key.component == name and key.index not in joining and _is_member(task) and task.node in paths
        ]
        present.sort(key=lambda each: rank_key(paths[each[1].node or ""], each[0]))
        ranks.update((f"{name}.{index}", rank) for rank, (index, _) in enumerate(present))
    for each in tasks:
        rank = ranks.get(each.task)
        yield each if rank is None else structs.replace(each, rank=rank, topology=tuple(paths[each.node or ""]))


def _works_together(part: Component) -> bool:
    has_framework = part.framework is not None and part.framework.name is not FrameworkName.NONE
    return has_framework or part.elastic


def _is_member(task: TaskRecord) -> bool:
    return task.state in _PRESENT and not task.released and task.preempted is None
