"""`/v1/jobs/{job}/operations`: file operations on a job, list them, wait for one, cancel one.

The API checks what it can, for a clear answer at once. The master-agent decides, and may still reject an operation.
Used by ``handlers``.
"""

from __future__ import annotations

from grass.errors import ConflictError, InputError, NotFoundError, UndecodableError
from grass.model.exhaustive import assert_never
from grass.model.job import Component, Job
from grass.model.lifecycle import JobState
from grass.model.sizes import SizeError, check_scaling, scaling_warning, target_size
from grass.system.clock import steady
from grass.system.entropy import operation_id
from grass.wire.calls import OperationRequest
from grass.wire.job_record import JobRecord
from grass.wire.job_views import OperationsView, OperationView, OperationWaited
from grass.wire.keys import TaskKey
from grass.wire.operation_record import OperationKind, OperationRecord
from grass.wire.tickets import (
    CancelOperation,
    OperationTicket,
    ReplaceTask,
    RestartJob,
    ResumeJob,
    ScaleJob,
    SuspendJob,
)
from master.api.call import HEARTBEAT, Call, Reply
from master.api.feed import PAUSE
from master.api.job_changes import CHANGE_SECONDS, find_job
from master.api.query import checked_id, parse_duration
from master.api.views import operation_view

MOST_REMOVED = 10_000
LONGEST_REASON = 500


def file_operation(call: Call, job: str) -> Reply:
    """File an operation. Answer 200 with what the master-agent made of it, or 202 if it has not taken it yet."""
    record, wanted = find_job(call, job), call.read(OperationRequest)
    name = checked_id(wanted.id) or operation_id()
    known = call.api.store.operation(record.id, name)
    if known is not None:  # the reply to an earlier attempt of this call was lost
        return Reply(operation_view(known))
    if record.state.ended:
        raise ConflictError(f"job {record.name}: already {record.state.value}; an operation needs an active job")
    if len(wanted.reason) > LONGEST_REASON:
        raise InputError(f"reason: must be at most {LONGEST_REASON} characters long, got {len(wanted.reason)}")
    ticket = _ticket(call, record, wanted, name)
    warnings = _warnings(call, record, wanted)
    call.ticket(ticket)
    until = steady() + CHANGE_SECONDS
    with call.api.feed.listen(record.name) as changed:
        while True:
            changed.clear()
            operation = call.api.store.operation(record.id, name)
            if operation is not None:
                return Reply(operation_view(operation, warnings))
            if steady() >= until or call.api.feed.closed:
                waiting = OperationRecord(
                    id=name,
                    job_id=record.id,
                    kind=wanted.kind,
                    component=wanted.component,
                    author=call.user,
                    filed=call.api.wall(),
                    message="waits for the master-agent",
                )
                return Reply(operation_view(waiting, warnings), 202)
            changed.wait(until - steady())


def list_operations(call: Call, job: str) -> OperationsView:
    record = find_job(call, job)
    return OperationsView(tuple(operation_view(each) for each in call.api.store.operations(record.id)))


def wait_for_operation(call: Call, job: str, operation: str) -> OperationWaited:
    """Answer once the operation has ended, or time is up."""
    record = find_job(call, job)
    with call.waiting() as granted, call.api.feed.listen(record.name) as changed:
        until = steady() + (call.query["timeout"] if granted else 0.0)
        while True:
            changed.clear()
            call.check_admitted()
            found = _find(call, record, operation)
            left = until - steady()
            if not found.unfinished or left <= 0 or call.api.feed.closed:
                return OperationWaited(operation_view(found), 0.0 if granted else PAUSE)
            changed.wait(min(left, HEARTBEAT))


def cancel_operation(call: Call, job: str, operation: str) -> OperationView:
    """Cancel an operation that waits, or new members that are not members yet."""
    record = find_job(call, job)
    found = _find(call, record, operation)
    if not found.unfinished:
        outcome = found.outcome.value if found.outcome else "ended"
        raise ConflictError(f"operation {found.id}: already {outcome}; nothing to cancel")
    if not found.cancellable:
        raise ConflictError(f"operation {found.id}: is {found.state.value}; it cannot be cancelled any more")
    call.ticket(CancelOperation(job_id=record.id, id=found.id, user=call.user))
    until = steady() + CHANGE_SECONDS
    with call.api.feed.listen(record.name) as changed:
        while True:
            changed.clear()
            found = _find(call, record, operation)
            left = until - steady()
            if not found.cancellable or left <= 0 or call.api.feed.closed:
                return operation_view(found)
            changed.wait(left)


def _find(call: Call, record: JobRecord, name: str) -> OperationRecord:
    found = call.api.store.operation(record.id, name)
    if found is None:
        hint = f"`grass job operations {record.name}` lists them"
        raise NotFoundError(f"job {record.name}: no operation {name}; {hint}")
    return found


def _ticket(call: Call, record: JobRecord, wanted: OperationRequest, name: str) -> OperationTicket:
    seconds = parse_duration("deadline", wanted.deadline)
    about = {"job_id": record.id, "id": name, "user": call.user, "reason": wanted.reason}
    match wanted.kind:
        case OperationKind.SCALE:
            _check_scaling(call, record, wanted)
            return ScaleJob(
                **about,
                component=wanted.component or "",
                size=wanted.size,
                delta=wanted.delta,
                remove=tuple(wanted.remove),
                partial=wanted.partial,
                deadline=seconds,
                rule=None,
            )
        case OperationKind.SUSPEND:
            if record.state is JobState.SUSPENDED:
                raise ConflictError(f"job {record.name}: suspended already; `grass job resume` starts it again")
            return SuspendJob(**about, deadline=seconds)
        case OperationKind.RESUME:
            if record.state is not JobState.SUSPENDED and record.operation is None:
                raise ConflictError(f"job {record.name}: is {record.state.value}, not SUSPENDED; nothing to resume")
            return ResumeJob(**about)
        case OperationKind.RESTART:
            return RestartJob(**about, deadline=seconds)
        case OperationKind.REPLACE:
            [task] = wanted.remove if len(wanted.remove) == 1 else [""]
            _task(record, task)
            return ReplaceTask(**about, task=task, deadline=seconds)
        case OperationKind.DRAIN | OperationKind.REQUEUE:
            raise InputError(f"kind: {wanted.kind.value} is filed by the cluster itself")
        case _:
            assert_never(wanted.kind)


def _check_scaling(call: Call, record: JobRecord, wanted: OperationRequest) -> None:
    spec = _spec(call, record)
    component, part = _component(spec, record, wanted), record.components[wanted.component or ""]
    if len(wanted.remove) > MOST_REMOVED:
        raise InputError(f"remove: must name at most {MOST_REMOVED} tasks, got {len(wanted.remove)}")
    if len(set(wanted.remove)) < len(wanted.remove):
        raise InputError("remove: names a task twice")
    for task in wanted.remove:
        key = _task(record, task)
        if key.component != component.name:
            raise InputError(f"remove: {task} is not a task of {component.name}")
    try:
        check_scaling(spec, component.name, wanted.remove)
    except SizeError as error:
        raise InputError(f"job {record.name}: {error}") from error
    if record.operation is not None and wanted.delta is not None:
        return  # the size that it begins with is not known yet
    try:
        target_size(component, part.replicas, wanted.size, wanted.delta, wanted.remove)
    except SizeError as error:
        raise InputError(f"job {record.name}: {error}") from error


def _spec(call: Call, record: JobRecord) -> Job:
    spec = call.api.store.spec(record.id)
    if spec is None:
        raise NotFoundError(f"job {record.name}: is being removed")
    return spec


def _component(spec: Job, record: JobRecord, wanted: OperationRequest) -> Component:
    if wanted.component not in spec.components:
        known = ", ".join(spec.components)
        raise NotFoundError(f"job {record.name}: no component {wanted.component}; it has {known}")
    return spec.components[wanted.component]


def _task(record: JobRecord, text: str) -> TaskKey:
    try:
        key = TaskKey.parse(text)
    except UndecodableError as error:
        raise InputError(f"job {record.name}: {text!r} is not a task; write COMPONENT.INDEX") from error
    part = record.components.get(key.component)
    if part is None or key.index not in part.indexes:
        raise NotFoundError(f"job {record.name}: no task {text}; `grass job show {record.name}` lists its tasks")
    return key


def _warnings(call: Call, record: JobRecord, wanted: OperationRequest) -> tuple[str, ...]:
    if wanted.kind is not OperationKind.SCALE:
        return ()
    component = _component(_spec(call, record), record, wanted)
    message = scaling_warning(component)
    return (f"{component.name}: {message}",) if message else ()
