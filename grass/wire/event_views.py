"""Replies of the API about what happened: events, and the logs of daemons. Sent by the API server."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from grass.wire.codec import Form
from grass.wire.daemon_line import DaemonLine
from grass.wire.event_record import EventRecord


class EventView(EventRecord, frozen=True, omit_defaults=True, kw_only=True):
    """One entry of the event log. ``by`` is empty if the caller may not see that job."""

    id: str


class EventPiece(msgspec.Struct, frozen=True):
    events: tuple[EventView, ...]
    after: str
    """Send it back as ``after`` for later events. Empty: a sign of life while the server searches."""
    open: bool
    pause: float | UnsetType = UNSET
    """Seconds after which to ask again, if too many follow already."""
    before: str | UnsetType = UNSET
    """Send it back as ``before`` for older events. Absent: there are none."""


class DaemonLogPiece(msgspec.Struct, frozen=True):
    """One piece of the log of daemons, oldest first."""

    lines: tuple[DaemonLine, ...]
    after: str
    """Where to continue."""
    open: bool
    """Whether more may follow."""
    pause: float = 0.0
    """Seconds to wait before asking again."""


EVENT_PIECE: Form[EventPiece] = Form(EventPiece)
DAEMON_LOG_PIECE: Form[DaemonLogPiece] = Form(DaemonLogPiece)
