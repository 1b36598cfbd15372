"""`/v1/schedules`: batches of jobs, and cron rules."""

from __future__ import annotations

from flask import Blueprint

from grass.clock import steady
from grass.errors import ConflictError, NotFoundError
from grass.wire.calls import ScheduleSubmission
from grass.wire.schedule_record import ScheduleRecord, ScheduleState, first_record
from grass.wire.tickets import StartSchedule, StopSchedule
from grass.wire.views import SchedulesView, ScheduleView
from master.api.call import Api, Call, Handler, Reply
from master.api.plan import check_dependencies
from master.api.registry import noun_blueprint
from master.api.submission import accept_schedule
from master.api.views import schedule_view

APPEAR_SECONDS = 3.0
"""Time for the master-agent to take a ticket: less than a client waits for an answer."""


def blueprint(api: Api) -> Blueprint:
    handlers: dict[str, Handler] = {
        "list": list_schedules,
        "start": start_schedule,
        "show": show_schedule,
        "stop": stop_schedule,
    }
    return noun_blueprint("schedules", api, handlers)


def find_schedule(call: Call, name: str) -> ScheduleRecord:
    record = _known(call, name)
    if record is None:
        raise NotFoundError(f"schedule {name}: not found; `grass schedule list` lists all schedules")
    call.check_owner(record.user, f"schedule {name}")
    return record


def list_schedules(call: Call) -> SchedulesView:
    records = call.api.store.schedules()
    return SchedulesView(tuple(schedule_view(record) for record in records if call.sees(record.user)))


def show_schedule(call: Call, schedule: str) -> ScheduleView:
    return schedule_view(find_schedule(call, schedule))


def start_schedule(call: Call) -> Reply:
    """Start a schedule. Answers when the master-agent has taken it; 202 if that takes long, although it is stored."""
    submission = call.read(ScheduleSubmission)
    parsed = accept_schedule(submission, call.api.store.nodes, keep_cwd=call.api.config.master.nodes_on_client)
    name = parsed.schedule.name
    warnings_after = [warning for job in parsed.schedule.jobs for warning in check_dependencies(call, job)]
    warnings = tuple(dict.fromkeys([*parsed.warnings, *warnings_after]))
    before = _known(call, name)
    if before is not None and before.state is ScheduleState.ACTIVE:
        if submission.retry and before.user == call.user and before.spec == parsed.schedule:
            return Reply(schedule_view(before, warnings), 201)  # the reply to the first try was lost
        raise ConflictError(
            f"schedule {name}: active already; stop it with `grass schedule stop {name}`, or choose another name"
        )
    call.api.store.ticket(StartSchedule(parsed.schedule, call.user))
    record = _await_change(call, name, before)
    if record is None:
        return Reply(schedule_view(first_record(parsed.schedule, call.user), warnings), 202)
    return Reply(schedule_view(record, warnings), 201)


def stop_schedule(call: Call, schedule: str) -> ScheduleView:
    record = find_schedule(call, schedule)
    if record.state is ScheduleState.ACTIVE:
        call.api.store.ticket(StopSchedule(schedule, call.user))
        record = _await_change(call, schedule, record) or record
    return schedule_view(record)


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
