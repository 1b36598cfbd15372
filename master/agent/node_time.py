"""Times in reports, converted to the master's clock: durations are right even if a node's clock is wrong. Pure.

Used by ``reactor``.
"""

from __future__ import annotations

from msgspec.structs import replace

from grass.model.exhaustive import assert_never
from grass.wire.task_events import Drained, Ended, Leaving, Located, Ready, Started, TaskEvent, Unclaimed, Waiting

NEGLIGIBLE = 30.0
"""Seconds. A smaller difference is ignored: reports take time, and no two clocks agree exactly."""


def on_master_clock(events: tuple[TaskEvent, ...], ahead: float) -> tuple[TaskEvent, ...]:
    """Return the events with times of the master's clock.

    ``ahead``: how far the node's clock was ahead, in seconds, when it sent the report."""
    if abs(ahead) < NEGLIGIBLE:
        return events
    return tuple(_shifted(event, ahead) for event in events)


def _shifted(event: TaskEvent, ahead: float) -> TaskEvent:
    match event:
        case Started():
            prepared = None if event.prepared is None else event.prepared - ahead
            return replace(event, at=event.at - ahead, prepared=prepared)
        case Ended():
            started = None if event.started is None else event.started - ahead
            return replace(event, at=event.at - ahead, started=started)
        case Unclaimed():
            return event if event.ended is None else replace(event, ended=event.ended - ahead)
        case Ready() | Waiting() | Drained() | Located() | Leaving():
            return event
        case _:
            assert_never(event)
