"""The replies of the API, as JSON: one type per reply. The OpenAPI document is generated from them.

Here: plans, schedules, images. Other replies are in the modules ``*_views``. Sent by the
API server.

A view is a record without fields that only the master-agent needs, redacted for its reader. A field that does not
apply is absent. A new field has a default: older servers do not send it (``version``).
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from grass.model.lifecycle import JobState
from grass.model.reasons import Reason
from grass.model.schedule import ScheduleKind
from grass.wire.codec import Form
from grass.wire.plan_answer import PlannedComponent
from grass.wire.schedule_record import ScheduleState


class SessionView(msgspec.Struct, frozen=True):
    """A session. Later calls are encrypted with its key."""

    session: str
    """Its id: 32 hexadecimal digits."""
    key: str
    """256 bits, base64url."""
    seconds: int
    """How long it lasts, at most."""
    protocol: int
    """What the server speaks."""
    version: str
    """Version of Grass on the server."""
    revision: int = 0
    """The server's ``grass.wire.version.REVISION``."""
    standby: str = ""
    """URL at which the API would be after a failover; empty: there is no standby."""


class NoticeView(msgspec.Struct, frozen=True):
    """Where the master is, signed by it (``grass.api.notice``)."""

    notice: str


class PlanEviction(msgspec.Struct, frozen=True):
    """A job whose tasks would be stopped for the planned one."""

    job: str | None
    """None: a job that the caller may not see."""
    count: int
    """Tasks that would be stopped."""


class PlanView(msgspec.Struct, frozen=True):
    """Where a job would run if it were submitted now."""

    name: str
    reason: Reason | None
    components: dict[str, PlannedComponent]
    evictions: tuple[PlanEviction, ...]
    warnings: tuple[str, ...]


class KeepAlive(msgspec.Struct, frozen=True):
    """An empty object of a stream, ``{}``: the server is working; or, as the last one, the stream ends."""


class RunView(msgspec.Struct, frozen=True):
    """One job that a schedule started."""

    id: str
    state: JobState
    started: float | None
    ended: float | None
    exit_code: int | None


class ScheduleView(msgspec.Struct, frozen=True, kw_only=True):
    """A batch of jobs, or a cron rule. Times are seconds since the epoch."""

    name: str
    state: ScheduleState
    kind: ScheduleKind
    user: str
    cron: str | None
    time_zone: str | None
    next: float | None
    last: float | None
    jobs: tuple[str, ...]
    reason: Reason | None
    runs: tuple[RunView, ...] | UnsetType = UNSET
    """Runs of the jobs in ``jobs`` that are kept; in a list, only of the newest."""
    warnings: tuple[str, ...] | UnsetType = UNSET


class SchedulesView(msgspec.Struct, frozen=True):
    """All schedules that the caller may see."""

    schedules: tuple[ScheduleView, ...]


PLAN: Form[PlanView] = Form(PlanView)
SCHEDULE: Form[ScheduleView] = Form(ScheduleView)
SCHEDULES: Form[SchedulesView] = Form(SchedulesView)
NOTICE_VIEW: Form[NoticeView] = Form(NoticeView)
