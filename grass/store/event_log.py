"""The cluster's event log: a stream of records. Written by the master-agent and the API server, read by the latter."""

from __future__ import annotations

from typing import NamedTuple

from grass.errors import UndecodableError
from grass.store.backend import Entry, Op
from grass.store.keys import EVENTS_KEPT, Keys
from grass.wire.codec import encode
from grass.wire.event_record import EVENT_RECORD, EventRecord


class Event(NamedTuple):
    id: str
    """Id of the stream's entry; clients ask for events by it."""
    record: EventRecord


def logged(keys: Keys, event: EventRecord) -> Op:
    """Return the write that adds an event."""
    return ("XADD", keys.events, EVENTS_KEPT, "event", encode(event))


def event_of(entry: Entry) -> Event:
    """One that cannot be decoded is an event, too: it wakes who waits, and stands in lists under its id."""
    entry_id, fields = entry
    try:
        return Event(entry_id, EVENT_RECORD.decode(fields.get("event", "")))
    except UndecodableError as error:
        at = int(entry_id.partition("-")[0]) / 1000
        return Event(entry_id, EventRecord(at, "event-unreadable", f"event {entry_id} cannot be read: {error}"))
