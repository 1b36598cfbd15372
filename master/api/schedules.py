"""`/v1/schedules`: batches of jobs, and cron rules. Used by ``handlers``."""

from __future__ import annotations

from grass.errors import ConflictError, NotFoundError
from grass.model.schedule import Overlap, ScheduleKind
from grass.system.clock import steady
from grass.wire.calls import ScheduleRequest, ScheduleSubmission
from grass.wire.schedule_record import ScheduleRecord, ScheduleState, first_record
from grass.wire.tickets import (
    DeleteSchedule,
    PauseSchedule,
    ResumeSchedule,
    RunSchedule,
    ScheduleChange,
    StartSchedule,
    StopSchedule,
)
from grass.wire.views import SchedulesView, ScheduleView
from master.api.call import Call, Reply
from master.api.plan import check_dependencies
from master.api.preflight import check_programs, program_sources
from master.api.query import checked_id
from master.api.submission import Terms, accept_schedule
from master.api.views import schedule_view

APPEAR_SECONDS = 3.0
"""Time for the master-agent to take a ticket: less than a client waits for an answer."""


def find_schedule(call: Call, name: str) -> ScheduleRecord:
    record = _known(call, name)
    if record is None:
        raise NotFoundError(f"schedule {name}: not found; `grass schedule list` lists all schedules")
    call.check_owner(record.user, f"schedule {name}")
    return record


def list_schedules(call: Call) -> SchedulesView:
    records = [record for record in call.api.store.schedules() if call.sees(record.user)]
    newest = {run.id: run for run in call.api.store.runs([record.jobs[-1] for record in records if record.jobs])}
    return SchedulesView(
        tuple(
            schedule_view(record, runs=[newest[each] for each in record.jobs[-1:] if each in newest])
            for record in records
        )
    )


def show_schedule(call: Call, schedule: str) -> ScheduleView:
    record = find_schedule(call, schedule)
    runs = {run.id: run for run in call.api.store.runs(record.jobs)}
    return schedule_view(record, runs=[runs[each] for each in record.jobs if each in runs])


def start_schedule(call: Call) -> Reply:
    """Start a schedule. Answers when the master-agent has taken it; 202 if that takes long, although it is stored."""
    submission = call.read(ScheduleSubmission)
    parsed = accept_schedule(submission, call.api.store.nodes, Terms.of(call.api.config, call.user))
    check_programs(parsed.schedule.jobs, program_sources(call))
    name = parsed.schedule.name
    warnings_after = [warning for job in parsed.schedule.jobs for warning in check_dependencies(call, job)]
    warnings = tuple(dict.fromkeys([*parsed.warnings, *warnings_after]))
    before = _known(call, name)
    if before is not None and before.user != call.user and not before.goes_on:
        raise ConflictError(f"schedule {name}: a schedule of {before.user} has this name; choose another name")
    if before is not None and before.goes_on:
        if submission.retry and before.user == call.user and before.spec == parsed.schedule:
            return Reply(schedule_view(before, warnings), 201)  # the reply to the first try was lost
        raise ConflictError(f"schedule {name}: {before.state.value} already; stop it with `grass schedule stop {name}`")
    call.ticket(StartSchedule(parsed.schedule, call.user))
    record = _await_change(call, name, before)
    if record is None:
        return Reply(schedule_view(first_record(parsed.schedule, call.user), warnings), 202)
    return Reply(schedule_view(record, warnings), 201)


def stop_schedule(call: Call, schedule: str) -> ScheduleView:
    record = find_schedule(call, schedule)
    if record.goes_on:
        call.ticket(StopSchedule(schedule, call.user))
        record = _await_change(call, schedule, record) or record
    return schedule_view(record)


def pause_schedule(call: Call, schedule: str) -> Reply:
    record, request = find_schedule(call, schedule), _request(call)
    if request in record.requests:
        return Reply(schedule_view(record))
    _check_cron(record, ScheduleState.ACTIVE)
    return _change(call, record, PauseSchedule(schedule, call.user, request))


def resume_schedule(call: Call, schedule: str) -> Reply:
    record, request = find_schedule(call, schedule), _request(call)
    if request in record.requests:
        return Reply(schedule_view(record))
    _check_cron(record, ScheduleState.PAUSED)
    return _change(call, record, ResumeSchedule(schedule, call.user, request))


def run_schedule(call: Call, schedule: str) -> Reply:
    """Start a run now. A rule that is stopped, and a batch that is active, start none."""
    record, request = find_schedule(call, schedule), _request(call)
    if request in record.requests:
        return Reply(schedule_view(record))
    active = record.goes_on
    if active is not (record.kind is ScheduleKind.CRON):
        hint = "wait for its end" if active else "start it again with `grass schedule start`"
        raise ConflictError(f"schedule {schedule}: is {record.state.value}; {hint}")
    live = call.api.store.job(schedule) if record.kind is ScheduleKind.CRON else None
    if live is not None and not live.state.ended and (record.spec.overlap is Overlap.SKIP or live.schedule != schedule):
        raise ConflictError(f"schedule {schedule}: job {live.id} is still active; wait for its end, or stop it")
    return _change(call, record, RunSchedule(schedule, call.user, request))


def delete_schedule(call: Call, schedule: str) -> Reply:
    """Remove a schedule. Answers 200 once it is gone, 202 if the master-agent has not done so yet."""
    record = find_schedule(call, schedule)
    if record.kind is ScheduleKind.BATCH and record.state is ScheduleState.ACTIVE:
        stop = f"grass schedule stop {schedule}"
        raise ConflictError(f"schedule {schedule}: its jobs are active; stop them first with `{stop}`")
    call.ticket(DeleteSchedule(schedule, call.user))
    until = steady() + APPEAR_SECONDS
    with call.api.feed.listen() as changed:
        while steady() < until and not call.api.feed.closed:
            if _known(call, schedule) is None:
                return Reply(schedule_view(record))
            changed.wait(until - steady())
            changed.clear()
    return Reply(schedule_view(record), 202)


def _request(call: Call) -> str:
    """Return the id of the request, by which a repetition is known; "": the client names none."""
    return checked_id(call.read(ScheduleRequest).id or None) or ""


def _check_cron(record: ScheduleRecord, state: ScheduleState) -> None:
    if record.kind is not ScheduleKind.CRON:
        raise ConflictError(f"schedule {record.name}: is a batch; only a cron rule can be paused and resumed")
    if record.state is not state:
        raise ConflictError(f"schedule {record.name}: is {record.state.value}, not {state.value}")


def _change(call: Call, record: ScheduleRecord, ticket: ScheduleChange) -> Reply:
    call.ticket(ticket)
    changed = _await_change(call, record.name, record)
    return Reply(schedule_view(record), 202) if changed is None else Reply(schedule_view(changed))


def _known(call: Call, name: str) -> ScheduleRecord | None:
    return next((record for record in call.api.store.schedules() if record.name == name), None)


def _await_change(call: Call, name: str, before: ScheduleRecord | None) -> ScheduleRecord | None:
    until = steady() + APPEAR_SECONDS
    with call.api.feed.listen() as changed:
        while steady() < until and not call.api.feed.closed:
            record = _known(call, name)
            if record is not None and record != before:
                return record
            changed.wait(until - steady())
            changed.clear()
    return None
