"""Views of ``grass.Client`` that are not a reply of the API: the client makes them of several.

Used by ``grass``, ``job`` and ``client``.
"""

from __future__ import annotations

import msgspec

from grass.wire.event_views import EventView


class LogLine(msgspec.Struct, frozen=True):
    """A line that a task printed. With ``joined``: several lines, with newlines between them."""

    task: str
    """``<component>.<index>``."""
    attempt: int
    stream: str
    """``stdout`` or ``stderr``."""
    time: float
    """When the node read it: seconds since the epoch."""
    text: str
    """Without the newline at its end."""
    newline: bool
    """Whether a newline ended it."""
    lost: int
    """Bytes before it that were lost."""


class EventPage(msgspec.Struct, frozen=True):
    events: tuple[EventView, ...]
    """Oldest first."""
    before: str | None
    """Send it as ``before`` for older events. None: there are none."""
