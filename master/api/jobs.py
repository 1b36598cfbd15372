"""`/v1/jobs`: submit, show, wait for, stop and delete jobs. Used by ``handlers``."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from msgspec import UNSET, structs

from grass import trace
from grass.errors import ConflictError, NotFoundError
from grass.model.event_kind import EventKind
from grass.model.job import Job
from grass.system.clock import steady
from grass.system.entropy import run_id
from grass.wire.calls import Stop, Submission
from grass.wire.job_details import JobDetails
from grass.wire.job_record import JobRecord
from grass.wire.job_views import JobView, StartedView, TasksView, WaitedView, WhyView
from grass.wire.keys import TaskKey
from grass.wire.task_record import TaskRecord
from grass.wire.tickets import DeleteJob, StopJob
from master.api import namesakes
from master.api.call import Call, Pieces, PiecesToEnd, Reply
from master.api.chosen_ids import check_own, check_unused
from master.api.feed import PAUSE
from master.api.job_changes import find_job, stop_tasks
from master.api.log_stream import stream_logs
from master.api.named_files import with_named_files
from master.api.plan import check_dependencies
from master.api.preflight import check_programs, program_sources
from master.api.progress import Progress
from master.api.query import parse_duration
from master.api.ranks import have_ranks, with_ranks
from master.api.redaction import Redaction
from master.api.submission import Accepted, Terms, accept_job
from master.api.usage import with_running
from master.api.views import all_records, counted_tasks, first_tasks, job_view, specification, task_views, with_values
from master.api.why import on_silent_nodes, why_view

_NAMESAKE_TRIES = 50
"""How often a job looks for a free name behind its namesakes."""
DELETE_SECONDS = 3.0
"""Time to wait for the deletion: less than a client waits for an answer."""


def start_job(call: Call) -> Reply:
    trace.mark("API: opened")
    store, submission = call.api.store, call.read(Submission)
    config = call.api.config
    accepted = accept_job(submission, store.nodes, run_id, Terms.of(config, call.user))
    check_programs([accepted.job], program_sources(call))
    job = with_named_files(accepted.job, config.data_dir, call.confined)
    trace.mark("API: manifest read")
    if not submission.after_namesake:
        return Reply(_submit(call, submission, replace(accepted, job=job)), 201)
    run = accepted.job_id.rpartition("-")[2]
    for _ in range(_NAMESAKE_TRIES):
        active = store.active()
        known = namesakes.earlier(job.name, run, active, lambda job_id: store.run(job_id) is not None)
        if known is not None:
            check_own(call, known[1])
            return Reply(StartedView(*known, ()), 201)
        queued = namesakes.behind(job, active)
        with suppress(ConflictError):  # somebody else took that name just now
            return Reply(_submit(call, submission, replace(accepted, job=queued, job_id=f"{queued.name}-{run}")), 201)
    raise ConflictError(f"job {job.name}: others start jobs of this name all the time; try again")


def _submit(call: Call, submission: Submission, accepted: Accepted) -> StartedView:
    job, job_id = accepted.job, accepted.job_id
    now, warnings = call.api.wall(), [*accepted.warnings, *check_dependencies(call, job, submission.strict)]
    sighting = call.caller.sighting
    assert sighting is not None  # a route of sessions
    check_unused(call, job_id)
    fresh = call.api.store.submit(
        job,
        job_id=job_id,
        user=call.user,
        now=now,
        warnings=warnings,
        held=call.user if submission.hold else None,
        starts=None if submission.delay is None else now + submission.delay,
        file=accepted.file,
        sighting=sighting,
        address=call.address,
    )
    trace.mark("API: stored")
    if not fresh:
        check_own(call, job_id)
    return StartedView(job.name, job_id, tuple(warnings))


def show_job(call: Call, job: str) -> JobDetails:
    record = find_job(call, job)
    newer = call.api.store.newer_deleted(job) if job == record.name else None
    spec = call.api.store.spec(record.id) if call.query["specification"] else None
    view = structs.replace(job_view(record), newer_deleted=UNSET if newer is None else newer)
    return JobDetails(
        **structs.asdict(view),
        specification=UNSET if spec is None else specification(spec, values=call.sees_values(record.user)),
    )


def list_tasks(call: Call, job: str) -> TasksView:
    record = find_job(call, job)
    component = call.query["component"]
    if component is not None and component not in record.components:
        known = ", ".join(record.components)
        raise NotFoundError(f"job {record.name}: no component {component}; it has {known}")
    spec, most = call.api.store.spec(record.id), call.query["first"]
    if spec is None:
        return TasksView(())
    tasks = known_tasks(call, record, spec)
    if most is None:
        found = task_views(record, spec, tasks, component)
    else:
        found = first_tasks(record, spec, tasks, component, int(most))
    if names := have_ranks(record, spec):
        nodes = {task.node for key, task in tasks.items() if key.component in names and task.node is not None}
        paths = {node.name: node.path for node in call.api.store.some_nodes(sorted(nodes))}
        found = list(with_ranks(found, record, names, tasks, paths))
    return TasksView(tuple(with_values(task, spec) for task in with_running(call, record.id, found)))


def explain_job(call: Call, job: str) -> WhyView:
    record = find_job(call, job)
    spec = call.api.store.spec(record.id)
    if spec is None:
        raise NotFoundError(f"job {record.name}: not found; it is being deleted")
    tasks = counted_tasks(record, spec, known_tasks(call, record, spec))
    findings = () if record.state.ended else call.api.store.findings(record.id)
    return why_view(record, spec, on_silent_nodes(tasks, call.api.store.nodes()), findings)


def wait_for_job(call: Call, job: str) -> PiecesToEnd:
    """Stream ``{"job": view}``: at once; with ``progress`` after each change; and when the job has ended or time is up.

    The last one has a ``pause``: if the job has not ended, ask again after that many seconds."""
    before, first = call.api.feed.last_end(), find_job(call, job)
    watched = call.query["progress"]
    with call.waiting() as granted, call.api.feed.listen(first.name, until_end=not watched) as changed:
        until = steady() + (call.query["timeout"] if granted else 0.0)
        progress = Progress(watched)
        missed_none = not watched and before is not None and before == call.api.feed.last_end()
        record, now = first if missed_none else _same_run(call, first), steady()
        while True:
            if record.state.ended or now >= until or call.api.feed.closed:
                return WaitedView(job_view(record), 0.0 if granted else PAUSE)
            if (piece := progress.piece(record, now)) is not None:
                yield piece
            changed.wait(min(until - now, progress.patience))
            changed.clear()
            record, now = _same_run(call, first), steady()


def _same_run(call: Call, first: JobRecord) -> JobRecord:
    record = call.api.feed.ended_job(first.id)
    if record is None or record.submitted != first.submitted:  # the id may have been used by an earlier job
        record = call.api.store.run(first.id)
    if record is None:
        raise NotFoundError(f"job {first.name} ({first.id}): not found; it was deleted")
    return Redaction(call).job(record)


def read_logs(call: Call, job: str) -> Pieces:
    return stream_logs(call, find_job(call, job))


def stop_job(call: Call, job: str) -> JobView:
    record, wanted = find_job(call, job), call.read(Stop)
    grace = parse_duration("grace", wanted.grace)
    if wanted.tasks:
        stop_tasks(call, record, tuple(wanted.tasks), grace)
    elif not record.state.ended:
        call.log_event(
            EventKind.JOB_STOP_REQUESTED, f"job {record.name}: stop requested", job=record.name, run=record.id
        )
        call.ticket(StopJob(record.id, call.user, grace))
    return job_view(record)


def delete_job(call: Call, job: str) -> Reply:
    """Delete an ended job. Answers 200 once it is deleted, 202 if the master-agent has not done so yet."""
    record = find_job(call, job)
    store, name = call.api.store, record.name
    if not record.state.ended:
        raise ConflictError(f"job {name}: still active; stop it first with `grass job stop {name}`")
    call.log_event(
        EventKind.JOB_DELETE_REQUESTED, f"job {name} ({record.id}): deletion requested", job=name, run=record.id
    )
    call.ticket(DeleteJob(record.id, call.user))
    until = steady() + DELETE_SECONDS
    with call.api.feed.listen(name) as changed:
        while steady() < until and not call.api.feed.closed:
            if store.run(record.id) is None:
                return Reply(job_view(record))
            changed.wait(0.02)
            changed.clear()
    return Reply(job_view(record), 202)


def known_tasks(call: Call, record: JobRecord, spec: Job) -> dict[TaskKey, TaskRecord]:
    """Return the redacted records of the job's tasks. A task that was never assigned has none."""
    redaction = Redaction(call)
    stored = {key: redaction.task(task) for key, task in call.api.store.tasks(record.id).items()}
    return all_records(record, spec, stored)
