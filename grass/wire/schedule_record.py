"""The record of one schedule. Written by the master-agent."""

from __future__ import annotations

from enum import Enum

import msgspec

from grass.model.reasons import Reason
from grass.model.schedule import Schedule, ScheduleKind
from grass.wire.codec import Form


class ScheduleState(str, Enum):
    """Whether it starts jobs."""

    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    """A cron rule that starts nothing until it is resumed."""
    STOPPED = "STOPPED"
    DONE = "DONE"
    """A batch whose jobs have all ended."""


class ScheduleRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The record of one schedule. By name in the hash ``schedules``."""

    name: str
    state: ScheduleState
    kind: ScheduleKind
    user: str
    cron: str | None = None
    time_zone: str = "UTC"
    next: float | None = None
    """Time of the next run in seconds since the epoch, as ``last``."""
    last: float | None = None
    jobs: tuple[str, ...] = ()
    """Job ids: all of a batch, the last 20 of a cron rule."""
    reason: Reason | None = None
    """Why its last run, or some jobs of a batch, did not start."""
    spec: Schedule
    pending: bool = False
    """Whether a run is postponed until the current one has ended."""
    runs: int = 0
    """Runs started so far."""
    requests: tuple[str, ...] = ()
    """Ids of the latest requests to pause, resume or run it that were carried out."""
    ended: float | None = None
    """When it was stopped, or the last job of the batch ended. None: it goes on."""

    @property
    def goes_on(self) -> bool:
        return self.state in (ScheduleState.ACTIVE, ScheduleState.PAUSED)


def first_record(schedule: Schedule, user: str) -> ScheduleRecord:
    """Return the record of a schedule that was just started."""
    return ScheduleRecord(
        name=schedule.name,
        state=ScheduleState.ACTIVE,
        kind=schedule.kind,
        user=user,
        cron=schedule.cron,
        time_zone=schedule.time_zone,
        spec=schedule,
    )


SCHEDULE_RECORD: Form[ScheduleRecord] = Form(ScheduleRecord)
