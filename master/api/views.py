"""From the records in the store to what the API shows of them (``grass.wire.views``). Pure. Takes redacted records.

Used by this package.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from msgspec import UNSET, UnsetType, structs

from grass.model.job import Job
from grass.model.key_text import job_of
from grass.model.lifecycle import JobState, TaskState
from grass.model.reasons import Reason, ReasonCode
from grass.model.resources import Resources
from grass.model.secrets import REDACTED, hidden, redacted
from grass.model.task_values import values_of
from grass.store.event_log import Event
from grass.wire.attempt_record import AttemptRecord
from grass.wire.event_views import EventView
from grass.wire.job_record import JobRecord
from grass.wire.job_views import AttemptView, JobView, OperationView, TaskView
from grass.wire.keys import TaskKey
from grass.wire.machines import Machines
from grass.wire.node_record import NodeRecord
from grass.wire.node_views import NodeView, ResourcesView
from grass.wire.operation_record import OperationKind, OperationRecord
from grass.wire.schedule_record import ScheduleRecord
from grass.wire.task_record import TaskRecord
from grass.wire.views import RunView, ScheduleView

_ATTENTION = (
    TaskState.FAILED,
    TaskState.LOST,
    TaskState.PENDING,
    TaskState.ASSIGNED,
    TaskState.RUNNING,
)
"""Task states that need attention, the most urgent first. The others come last."""


def job_view(record: JobRecord) -> JobView:
    return JobView(
        id=record.id,
        name=record.name,
        user=record.user,
        state=record.state,
        reason=record.reason,
        submitted=record.submitted,
        started=record.started,
        ended=record.ended,
        exit_code=record.exit_code,
        counts=record.counts,
        components=record.components,
        restarts=record.restarts,
        schedule=record.schedule,
        operation=record.operation,
        warnings=record.warnings,
        tags=record.tags,
        priority=record.priority,
        usage=record.usage,
        dialect=record.dialect,
        tries=record.tries,
        expires=record.expires,
        held=record.held,
        starts=record.starts,
        rerun_of=record.rerun_of,
        result=_result(record),
    )


def _result(record: JobRecord) -> JobState | None:
    if record.state.ended:
        return record.state
    return record.outcome.state if record.outcome is not None else None


def all_records(record: JobRecord, job: Job, stored: Mapping[TaskKey, TaskRecord]) -> dict[TaskKey, TaskRecord]:
    """Return the stored records of tasks, and records of the tasks that an earlier run has done."""
    reason = Reason(ReasonCode.CARRIED, f"succeeded in run {record.rerun_of}", {"run": record.rerun_of})
    done = TaskRecord(TaskState.SUCCEEDED, reason=reason)
    carried = {
        TaskKey(component, index): done
        for component, ranges in job.carried.items()
        for first, last in ranges
        for index in range(first, last + 1)
    }
    return {**carried, **stored}


def operation_view(record: OperationRecord, warnings: tuple[str, ...] | UnsetType = UNSET) -> OperationView:
    to_size, added, removed = record.to_size, record.added, record.removed
    if record.kind is OperationKind.REPLACE:
        added = record.added or record.named  # also before the task is found, and if it cannot be replaced
    if record.kind is OperationKind.SCALE and record.from_size is None:
        to_size, removed = record.size, record.removed or record.named
    return OperationView(
        id=record.id,
        job_id=record.job_id,
        component=record.component,
        kind=record.kind,
        state=record.state,
        author=record.author,
        reason=record.reason,
        from_size=record.from_size,
        delta=record.delta,
        filed=record.filed,
        ended=record.ended,
        outcome=record.outcome,
        message=record.message,
        generation=record.generation,
        cancellable=record.cancellable,
        to_size=to_size,
        added=added,
        removed=removed,
        warnings=warnings,
    )


def node_view(record: NodeRecord, seen: Collection[str] | None = None) -> NodeView:
    """Return the view of a node. ``seen``: ids of the jobs whose tasks it names on the machines of a namespace; its
    labels are there, too. None: neither, because both may be many."""
    machines = record.machines
    if machines is not None:
        listed = tuple(
            structs.replace(each, tasks=tuple(key for key in each.tasks if seen is not None and job_of(key) in seen))
            for each in machines.machines
        )
        machines = Machines(listed, machines.labels if seen is not None else (), machines.left_out)
    return NodeView(
        name=record.name,
        state=record.state,
        reason=record.reason,
        address=record.address,
        resources=_resources(record.resources),
        free=_resources(record.free),
        tasks=record.tasks,
        usage=record.usage,
        version=record.version,
        seen=record.seen,
        gpus=record.gpus,
        labels=record.labels,
        path=record.path,
        path_note=record.path_note,
        runtimes=record.runtimes,
        programs=record.programs,
        versions=record.versions,
        machines=machines,
        conditions=record.conditions,
        cordoned=record.cordoned,
        quarantine={str(device): why for device, why in record.quarantine.items()},
        check=record.check,
        speed=record.speed,
    )


def _resources(amounts: Resources) -> ResourcesView:
    return ResourcesView(amounts.cpu, amounts.memory, amounts.gpu, amounts.disk, dict(amounts.custom))


def schedule_view(
    record: ScheduleRecord, warnings: tuple[str, ...] | UnsetType = UNSET, runs: Iterable[JobRecord] | UnsetType = UNSET
) -> ScheduleView:
    shown = runs if runs is UNSET else tuple(_run(run) for run in runs)
    return ScheduleView(
        name=record.name,
        state=record.state,
        kind=record.kind,
        user=record.user,
        cron=record.cron,
        time_zone=record.time_zone,
        next=record.next,
        last=record.last,
        jobs=record.jobs,
        reason=record.reason,
        runs=shown,
        warnings=warnings,
    )


def _run(record: JobRecord) -> RunView:
    return RunView(record.id, record.state, record.started, record.ended, record.exit_code)


def event_view(event: Event) -> EventView:
    return EventView(id=event.id, **structs.asdict(event.record))


def task_views(
    record: JobRecord, job: Job, known: Mapping[TaskKey, TaskRecord], component: str | None = None
) -> list[TaskView]:
    """Return all tasks of the job, by component and index. Tasks without a record were never assigned."""
    chosen = [name for name in job.components if component in (None, name)]
    return [_task(record, known, TaskKey(name, index)) for name in chosen for index in _indexes(record, name, known)]


def first_tasks(
    record: JobRecord, job: Job, known: Mapping[TaskKey, TaskRecord], component: str | None, most: int
) -> list[TaskView]:
    """Return the first ``most`` tasks: failed and lost ones, then pending and running ones, then finished ones.

    Within these, in the order of the job. Only the tasks that are returned are made, because an array may be wide.
    """
    rank = {state: position for position, state in enumerate(_ATTENTION)}
    never = TaskState.STOPPED if record.state.ended else TaskState.PENDING
    candidates = [
        (rank.get(known[key].state if (key := TaskKey(name, index)) in known else never, len(rank)), at, index)
        for at, name in enumerate(job.components)
        if component in (None, name)
        for index in _indexes(record, name, known)
    ]
    names = list(job.components)
    return [_task(record, known, TaskKey(names[at], index)) for _, at, index in heapq.nsmallest(most, candidates)]


def counted_tasks(record: JobRecord, job: Job, known: Mapping[TaskKey, TaskRecord]) -> Iterator[tuple[TaskView, int]]:
    """Yield (task, count): assigned tasks one by one; of each component's other tasks one, and how many there are."""
    never = {name: record.components[name].replicas for name in job.components}
    for key, task in known.items():
        if task.released and not task.state.on_node:
            continue
        never[key.component] -= not task.released
        yield _task(record, known, key), 1
    for name, count in never.items():
        if count > 0:
            yield _task(record, {}, TaskKey(name, 0)), count


def with_values(task: TaskView, job: Job) -> TaskView:
    """Return the task with what distinguishes it from the other tasks of an array."""
    values = values_of(job.components[task.component], task.index)
    return structs.replace(task, values=values) if values else task


def specification(job: Job, *, values: bool) -> Job:
    """Return the job without secrets. ``values``: with the values of its variables, and the address that it notifies.

    The address of a webhook is often a secret by itself.
    """
    shown = redacted if values else hidden
    parts = {
        name: replace(part, env=shown(part.env), shell=tuple(shown(dict(part.shell)).items()))
        for name, part in job.components.items()
    }
    on_end = job.on_end
    if on_end is not None and on_end.secret is not None:
        on_end = replace(on_end, secret=REDACTED)
    if on_end is not None and on_end.webhook is not None and not values:
        on_end = replace(on_end, webhook=REDACTED)
    return replace(job, components=parts, on_end=on_end)


def known_tasks(record: JobRecord, known: Mapping[TaskKey, TaskRecord]) -> list[TaskView]:
    """Return the tasks that have these records."""
    return [_task(record, known, key) for key in known]


def _indexes(record: JobRecord, component: str, known: Mapping[TaskKey, TaskRecord]) -> Sequence[int]:
    """Return the indexes of the component's tasks, and of removed tasks that still run."""
    indexes = record.components[component].indexes
    here = (each for each in known.items() if each[0].component == component)
    leaving = [key.index for key, task in here if task.released and task.state.on_node]
    return sorted({*indexes, *leaving}) if leaving else indexes


def _task(record: JobRecord, known: Mapping[TaskKey, TaskRecord], key: TaskKey) -> TaskView:
    task = known.get(key)
    if task is None:
        state = TaskState.STOPPED if record.state.ended else TaskState.PENDING
        task, reason = TaskRecord(state), _why_unassigned(record, key.component)
    else:
        reason = _why_waiting(record, key.component, task)
    return TaskView(
        task=str(key),
        component=key.component,
        index=key.index,
        reason=reason,
        state=task.state,
        attempt=task.attempt,
        node=task.node,
        exit_code=task.exit_code,
        signal=task.signal,
        started=task.started,
        ended=task.ended,
        ports=task.ports,
        restarts=task.restarts,
        pid=task.pid,
        sizes=task.sizes,
        ready=task.ready,
        gpus=task.gpus,
        usage=task.usage,
        software=task.software,
        log_gaps=task.log_gaps,
    )


def attempt_view(key: TaskKey, attempt: AttemptRecord, reason: Reason | None) -> AttemptView:
    return AttemptView(
        task=str(key),
        attempt=attempt.attempt,
        node=attempt.node,
        exit_code=attempt.exit_code,
        signal=attempt.signal,
        reason=reason,
        started=attempt.started,
        ended=attempt.ended,
        assigned=attempt.assigned,
        prepared=attempt.prepared,
    )


def _why_waiting(record: JobRecord, component: str, task: TaskRecord) -> Reason | None:
    """Return why a task waits. A requeued task waits for what its component waits for, not for its last attempt."""
    if task.state is not TaskState.PENDING or task.not_before is not None:
        return task.reason
    return record.components[component].reason or task.reason


def _why_unassigned(record: JobRecord, component: str) -> Reason | None:
    return record.reason if record.state.ended else record.components[component].reason or record.reason
