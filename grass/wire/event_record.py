"""One line of the cluster's event log: what happened, and who did it. Written by the API and the master-agent."""

from __future__ import annotations

import msgspec

from grass.wire.codec import Form


class EventRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One event. On the stream ``events``; the entry's id is the event's. Names that do not apply are empty."""

    time: float
    """Seconds since the epoch, by the master's clock."""
    kind: str
    """A stable word, see ``grass.model.event_kind``."""
    message: str
    """For people."""
    user: str = ""
    """The user who caused it."""
    job: str = ""
    """Name."""
    task: str = ""
    node: str = ""
    schedule: str = ""
    by: str = ""
    """Name of the job for which this happened: the one that preempts."""
    run: str = ""
    """Id of the job, whose name another run may have later."""
    address: str = ""
    """Address from which the user asked for it: the peer of the API call."""


EVENT_RECORD: Form[EventRecord] = Form(EventRecord)
