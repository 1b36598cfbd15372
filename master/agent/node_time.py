"""Times in reports, corrected to the master's clock: durations are right even if a node's clock is wrong. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from grass.wire.task_events import Ended, Started, TaskEvent

NEGLIGIBLE = 30.0
"""Seconds. Less is not set right: a report may take a while, and clocks are never quite the same."""


def timely(events: tuple[TaskEvent, ...], ahead: float) -> tuple[TaskEvent, ...]:
    """``events`` with the master's times. ``ahead``: seconds that the node's clock was ahead, when it reported."""
    if abs(ahead) < NEGLIGIBLE:
        return events
    return tuple(_shifted(event, ahead) for event in events)


def _shifted(event: TaskEvent, ahead: float) -> TaskEvent:
    match event:
        case Started():
            return replace(event, at=event.at - ahead)
        case Ended(started=None):
            return replace(event, at=event.at - ahead)
        case Ended(started=float(started)):
            return replace(event, at=event.at - ahead, started=started - ahead)
    return event
