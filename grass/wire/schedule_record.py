"""The record of one schedule. Written by the master-agent."""

from __future__ import annotations

from enum import Enum

import msgspec

from grass.model.reasons import Reason
from grass.model.schedule import Schedule, ScheduleKind
from grass.wire.codec import Form


class ScheduleState(str, Enum):
    ACTIVE = "ACTIVE"
    STOPPED = "STOPPED"
    DONE = "DONE"
    """A batch whose jobs have all ended."""


class ScheduleRecord(msgspec.Struct, frozen=True, kw_only=True):
    """By name in the hash ``schedules``."""

    name: str
    state: ScheduleState
    kind: ScheduleKind
    user: str
    cron: str | None = None
    time_zone: str = "UTC"
    next: float | None = None
    """Seconds since the epoch of the next run; so is ``last``."""
    last: float | None = None
    jobs: tuple[str, ...] = ()
    """Job ids: all of a batch, the last 20 of a cron rule."""
    reason: Reason | None = None
    """Why its last run, or jobs of a batch, did not start."""
    spec: Schedule
    pending: bool = False
    """Whether a run waits for the end of the present one."""
    runs: int = 0
    """Number of runs so far."""


SCHEDULE_RECORD: Form[ScheduleRecord] = Form(ScheduleRecord)
