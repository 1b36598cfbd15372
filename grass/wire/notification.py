"""A notification that is still to be delivered. Written by the master-agent, with the event that it is about."""

from __future__ import annotations

import msgspec

from grass.wire.codec import Form
from grass.wire.event_record import EventRecord
from grass.wire.job_record import JobRecord


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    """A notification to deliver. By id in the hash ``notifications``; removed once it was delivered or given up.

    Without ``webhook`` and ``command``, it goes to the receiver in the cluster's settings.
    """

    id: str
    event: EventRecord
    record: JobRecord | None = None
    """Record of the job that ended."""
    webhook: str | None = None
    secret: str | None = None
    tries: int = 0
    """Deliveries that failed so far."""
    due: float = 0.0
    """When it is tried again, in seconds since the epoch."""


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """What a receiver gets, as JSON: by POST, or on the standard input of a command."""

    id: str
    """The same in each delivery of one notification."""
    cluster: str
    event: EventRecord
    job: JobRecord | None = None


NOTIFICATION: Form[Notification] = Form(Notification)
