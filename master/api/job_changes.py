"""`/v1/jobs/{job}/…`: what users change about one job: rerun it, stop tasks, hold, release, set.

``find_job`` is shared with ``jobs`` and others. The handlers file tickets; only the master-agent changes a job. Used by
this package.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress

from grass.errors import ConflictError, InputError, NotFoundError, UndecodableError
from grass.model.event_kind import EventKind
from grass.model.job import Job
from grass.model.job_settings import JobSettings, SettingError
from grass.model.lifecycle import JobState
from grass.system.clock import steady
from grass.system.entropy import run_id
from grass.wire.calls import JobChange, Rerun
from grass.wire.job_file import JobFile
from grass.wire.job_record import JobRecord
from grass.wire.job_views import StartedView
from grass.wire.keys import TaskKey
from grass.wire.task_record import TaskRecord
from grass.wire.tickets import HoldJob, ReleaseJob, SetJob, StopTasks
from master.api import rerun as repeated
from master.api.call import Call, Reply
from master.api.chosen_ids import check_own, check_unused
from master.api.named_files import with_named_files
from master.api.plan import check_dependencies
from master.api.query import parse_duration
from master.api.redaction import Redaction
from master.api.submission import checked_job_id
from master.api.views import all_records, job_view

CHANGE_SECONDS = 3.0
"""Time for the master-agent to take a ticket: less than a client waits for an answer."""
WAITING = (JobState.QUEUED, JobState.SUSPENDED)
"""States in which a job may be held."""
ACTIVE = (*WAITING, JobState.RUNNING)
"""States in which settings of a job may be changed."""
MOST_TASKS = 10_000
"""Names of tasks in one request to stop them."""


def find_job(call: Call, name_or_id: str) -> JobRecord:
    """Return the redacted record of a job. Raises NotFoundError, or NotAllowedError for another user's job."""
    record = call.api.store.job(name_or_id)
    if record is None:
        raise NotFoundError(f"job {name_or_id}: not found; `grass job list --all` lists all jobs")
    call.check_owner(record.user, f"job {record.name}")
    return Redaction(call).job(record)


def rerun(call: Call, job: str) -> Reply:
    """Start a finished job again as the caller's, under the same name."""
    record, wanted, store = find_job(call, job), call.read(Rerun), call.api.store
    spec = _spec(call, record)
    if wanted.failed or wanted.resume:
        again = repeated.unfinished(record, spec, _tasks(call, record, spec), following=wanted.resume)
    else:
        again = repeated.whole(record, spec)
    again = with_named_files(again, call.api.config.data_dir, call.confined)
    job_id = checked_job_id(wanted.id, record.name) or run_id(record.name)
    warnings = tuple(check_dependencies(call, again))
    sighting = call.caller.sighting
    assert sighting is not None  # a route of sessions
    check_unused(call, job_id)
    fresh = store.submit(
        again,
        job_id=job_id,
        user=call.user,
        now=call.api.wall(),
        warnings=warnings,
        rerun_of=record.id,
        file=_file(call, record),
        sighting=sighting,
        address=call.address,
    )
    if not fresh:
        check_own(call, job_id)
    return Reply(StartedView(record.name, job_id, warnings), 201)


def _file(call: Call, record: JobRecord) -> JobFile | None:
    """Return the file of the run, for its rerun. One that is damaged does not prevent the rerun."""
    with suppress(UndecodableError):
        return call.api.store.file(record.id)
    return None


def stop_tasks(call: Call, record: JobRecord, names: tuple[str, ...], grace: float | None) -> None:
    """File a ticket that stops tasks of an active job. Raises for a name that is not an active task of it."""
    if len(names) > MOST_TASKS:
        raise InputError(f"tasks: at most {MOST_TASKS} names, got {len(names)}; name their component")
    if record.state.ended:
        raise ConflictError(f"job {record.name}: already {record.state.value}; nothing to stop")
    spec = _spec(call, record)
    known = _tasks(call, record, spec)
    for name in names:
        if name in spec.components:
            continue
        key = _task(record, spec, name)
        if key in known and known[key].state.ended:
            raise ConflictError(f"task {name}: already {known[key].state.value}; nothing to stop")
    said = names[0] if len(names) == 1 else f"{len(names)} tasks"
    text = f"job {record.name}: stop of {said} requested"
    call.log_event(EventKind.TASK_STOP_REQUESTED, text, job=record.name, run=record.id)
    call.ticket(StopTasks(record.id, call.user, names, grace))


def hold(call: Call, job: str) -> Reply:
    record = _queued(call, job, "held")
    call.ticket(HoldJob(record.id, call.user))
    return _changed(call, record, lambda now: now.held is not None)


def release(call: Call, job: str) -> Reply:
    record = find_job(call, job)
    if (record.held is None and record.starts is None) or record.state not in WAITING:
        raise ConflictError(f"job {record.name}: not held; it is {record.state.value}")
    call.ticket(ReleaseJob(record.id, call.user))
    return _changed(call, record, lambda now: now.held is None and now.starts is None)


def set_job(call: Call, job: str) -> Reply:
    """Change settings of a job that has not ended."""
    asked, record = call.read(JobChange), find_job(call, job)
    if record.state.ended or record.outcome is not None:
        raise ConflictError(f"job {record.name}: is {record.state.value}; its settings do not change any more")
    settings = JobSettings(asked.priority, parse_duration("timeout", asked.timeout), asked.parallelism)
    if settings == JobSettings():
        raise InputError("nothing to change: give priority, timeout or parallelism")
    try:
        settings.applied(_spec(call, record))
    except SettingError as error:
        raise InputError(str(error)) from error
    call.ticket(SetJob(record.id, call.user, settings))
    return _changed(call, record, lambda now: _has(call, now, settings), ACTIVE)


def _has(call: Call, now: JobRecord, settings: JobSettings) -> bool:
    """Return whether both the record, which was read before, and the specification have the settings."""
    spec = _spec(call, now)
    return settings.applied(spec) == spec and settings.priority in (None, now.priority)


def _queued(call: Call, job: str, what: str) -> JobRecord:
    record = find_job(call, job)
    if record.state is not JobState.QUEUED:
        raise ConflictError(f"job {record.name}: is {record.state.value}; only a queued job can be {what}")
    return record


def _changed(
    call: Call, record: JobRecord, done: Callable[[JobRecord], bool], states: Collection[JobState] = WAITING
) -> Reply:
    """Answer 200 once the change is made, 202 if the master-agent has not made it yet. Raises if the job left the
    ``states`` before."""
    until = steady() + CHANGE_SECONDS
    with call.api.feed.listen(record.name) as changed:
        while True:
            changed.clear()
            now = call.api.store.run(record.id)
            if now is not None and done(now):
                return Reply(job_view(Redaction(call).job(now)))
            if now is None or now.state not in states:
                state = "gone" if now is None else now.state.value
                raise ConflictError(f"job {record.name}: has become {state}; nothing was changed")
            if steady() >= until or call.api.feed.closed:
                return Reply(job_view(Redaction(call).job(now)), 202)
            changed.wait(until - steady())


def _spec(call: Call, record: JobRecord) -> Job:
    spec = call.api.store.spec(record.id)
    if spec is None:
        raise NotFoundError(f"job {record.name} ({record.id}): not found; it is being deleted")
    return spec


def _tasks(call: Call, record: JobRecord, spec: Job) -> dict[TaskKey, TaskRecord]:
    return all_records(record, spec, call.api.store.tasks(record.id))


def _task(record: JobRecord, spec: Job, name: str) -> TaskKey:
    try:
        key = TaskKey.parse(name)
    except UndecodableError as error:
        known = ", ".join(spec.components)
        message = f"job {record.name}: {name!r} is neither a task nor a component; it has {known}"
        raise NotFoundError(message) from error
    part = record.components.get(key.component)
    if part is None or key.index >= part.end or key.index in part.holes:
        has = ", ".join(f"{each}.0 to {each}.{now.end - 1}" for each, now in record.components.items())
        raise NotFoundError(f"job {record.name}: no task {name}; it has {has}")
    return key
