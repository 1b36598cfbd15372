"""What users change about a schedule after its start: pause, resume, run now, delete. Pure. Called by ``reactor``."""

from __future__ import annotations

from msgspec.structs import replace as changed

from grass.model.event_kind import EventKind
from grass.model.exhaustive import assert_never
from grass.model.schedule import ScheduleKind
from grass.wire.schedule_record import ScheduleRecord, ScheduleState
from grass.wire.tickets import DeleteSchedule, PauseSchedule, ResumeSchedule, RunSchedule, ScheduleChange
from master.agent.cron import next_time
from master.agent.schedules import arm, fire, keep, remove, start_batch
from master.agent.step import Step

REQUESTS_KEPT = 16
"""How many requests a record remembers, so that a client that lost the answer may repeat its request."""


def change(step: Step, ticket: ScheduleChange, entry_id: str) -> None:
    """Apply the ticket, or record why it has no effect. ``entry_id`` makes the ids of jobs of a batch."""
    record = step.cluster.schedules.get(ticket.name)
    if record is not None and _known(record, ticket):
        return  # the answer was lost, and the request was repeated
    if record is None or not _applies(record, ticket):
        state = "gone" if record is None else record.state.value
        kind = ticket.__struct_config__.tag
        step.event(EventKind.TICKET_REFUSED, f"ticket {kind}: refused; schedule {ticket.name} is {state}", ticket.user)
        return
    record = _remembering(record, ticket)
    match ticket:
        case PauseSchedule():
            keep(step, changed(record, state=ScheduleState.PAUSED, next=None, pending=False))
            _tell(step, ticket, "paused")
        case ResumeSchedule():
            following = next_time(record.spec.cron or "", record.time_zone, step.wall)
            record = changed(record, state=ScheduleState.ACTIVE, next=following)
            keep(step, record)
            arm(step, record)
            _tell(step, ticket, "resumed")
        case RunSchedule():
            cron = record.kind is ScheduleKind.CRON
            keep(step, fire(step, record) if cron else start_batch(step, changed(record, reason=None), entry_id))
            _tell(step, ticket, "run now")
        case DeleteSchedule():
            remove(step, record)
            _tell(step, ticket, "deleted")
        case _:
            assert_never(ticket)


def _known(record: ScheduleRecord, ticket: ScheduleChange) -> bool:
    return not isinstance(ticket, DeleteSchedule) and ticket.request in record.requests


def _remembering(record: ScheduleRecord, ticket: ScheduleChange) -> ScheduleRecord:
    if isinstance(ticket, DeleteSchedule) or not ticket.request:
        return record
    return changed(record, requests=(*record.requests, ticket.request)[-REQUESTS_KEPT:])


def _applies(record: ScheduleRecord, ticket: ScheduleChange) -> bool:
    cron = record.kind is ScheduleKind.CRON
    match ticket:
        case PauseSchedule():
            return cron and record.state is ScheduleState.ACTIVE
        case ResumeSchedule():
            return cron and record.state is ScheduleState.PAUSED
        case RunSchedule():
            return cron is record.goes_on
        case DeleteSchedule():
            return cron or record.state is not ScheduleState.ACTIVE
        case _:
            assert_never(ticket)


def _tell(step: Step, ticket: ScheduleChange, what: str) -> None:
    kind = EventKind(f"schedule-{what.replace(' ', '-')}")
    step.event(kind, f"schedule {ticket.name}: {what}", ticket.user, schedule=ticket.name)
