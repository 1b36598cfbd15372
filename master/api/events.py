"""`/v1/events`: what happened, and who did it. Users see events of their own jobs, and of the cluster.

Used by ``handlers`` and ``changes``.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple

from msgspec import UNSET, structs

from grass.errors import InputError
from grass.store.event_log import Event
from grass.wire.event_record import EventRecord
from grass.wire.event_views import EventPiece
from master.api.call import HEARTBEAT, Call, Pieces
from master.api.feed import PAUSE
from master.api.query import Query
from master.api.views import event_view

SIGN_OF_LIFE = 10_000
"""Events that are read between two signs of life."""
AT_ONCE = 1000
"""Events that one read of the store returns at most."""
MOST_KINDS = 50
CLOCKS_DIFFER = 60.0
"""Seconds by which the times of two events may be in another order than the events."""
FEW = 100
"""Events that the first read returns, if only a few are wanted."""
MOST_READ = 20_000
"""Events that a request with ``before`` reads at most. A filter that selects few may then answer none of them."""


def list_events(call: Call) -> Pieces:
    """Stream ``{"events": [...], "after": id, "open": bool}``. ``open`` in the last piece: ask again for more."""
    chosen = EventFilter(call, call.query["job"], Wanted.from_query(call.query))
    after, before, follow = (call.query[name] for name in ("after", "before", "follow"))
    for name in ("after", "before"):
        _check_id(name, call.query[name])
    if before is not None:
        if after is not None or follow:
            raise InputError("query parameter before: cannot be combined with after or follow")
        return _older(call, chosen, before)
    if after is not None:
        return _follow(call, chosen, after) if follow else _all(call, chosen, after)
    return _newest(call, chosen)


def _newest(call: Call, chosen: EventFilter) -> Pieces:
    """Stream the newest ``limit`` events; then those that come, if the caller follows."""
    found = yield from _backwards(call, chosen, None, None)
    yield _piece(found.events, found.newest, is_open=call.query["follow"], before=found.before)
    if call.query["follow"]:
        yield from _follow(call, chosen, found.newest)


def _older(call: Call, chosen: EventFilter, before: str) -> Pieces:
    """Answer the newest ``limit`` events before an id."""
    found = yield from _backwards(call, chosen, before, MOST_READ)
    yield _piece(found.events, found.newest, is_open=False, before=found.before)


class _Page(NamedTuple):
    """One page of events.

    ``events``: oldest first. ``newest``: id of the newest event that was read. ``before``: None: no older ones.
    """

    events: list[Event]
    newest: str
    before: str | None


def _backwards(
    call: Call, chosen: EventFilter, before: str | None, most: int | None
) -> Generator[EventPiece, None, _Page]:
    """Read from an id backwards, no further than necessary. ``most``: events to read at most.

    Yield an empty piece now and then, because a client does not wait long for a server that says nothing.
    """
    limit, kept, read, newest = call.query["limit"], list[Event](), 0, "0-0"
    while events := call.api.store.events_before(before, min(AT_ONCE, max(FEW, limit))):
        newest = events[0].id if not read else newest
        before = events[-1].id
        read += len(events)
        kept += chosen.matching(events)
        if len(kept) >= limit or (most is not None and read >= most):
            break
        if not chosen.reaches(events[-1].record.time):
            before = None
            break
        if read % SIGN_OF_LIFE < len(events):
            yield EventPiece((), "", True)
    else:
        before = None
    if 0 < limit <= len(kept):
        before = kept[limit - 1].id
    return _Page(kept[:limit][::-1], newest, before)


def _read(call: Call, chosen: EventFilter, after: str) -> Iterator[EventPiece]:
    """Yield all events that there are now."""
    while events := call.api.store.events(after, AT_ONCE):
        after = events[-1].id
        yield _piece(chosen.matching(events), after, is_open=False)


def _all(call: Call, chosen: EventFilter, after: str) -> Pieces:
    yield from _read(call, chosen, after)


def _follow(call: Call, chosen: EventFilter, after: str) -> Pieces:
    with call.waiting() as granted, call.api.feed.listen() as changed:
        while True:
            changed.clear()
            for piece in _read(call, chosen, after):
                after = piece.after
                yield structs.replace(piece, open=True)
            if not granted or call.api.feed.closed:
                yield EventPiece((), after, True, 0.0 if granted else PAUSE)
                return
            if not changed.wait(HEARTBEAT):
                yield EventPiece((), after, True)


def _piece(events: list[Event], after: str, *, is_open: bool, before: str | None = None) -> EventPiece:
    views = tuple(event_view(event) for event in events)
    return EventPiece(views, after, is_open, before=UNSET if before is None else before)


@dataclass(frozen=True)
class Wanted:
    """What the caller asked for, besides the job. ``since``: seconds since the epoch."""

    node: str | None = None
    user: str | None = None
    kinds: tuple[str, ...] = ()
    since: float = 0.0
    words: tuple[str, ...] = ()
    """Lower case. Each is in the message or in a name."""

    @classmethod
    def from_query(cls, query: Query) -> Wanted:
        """Read a query. Raises InputError for too many kinds."""
        kinds = tuple(kind for kind in (query["kind"] or "").split(",") if kind)
        if len(kinds) > MOST_KINDS:
            raise InputError(f"query parameter kind: at most {MOST_KINDS} kinds, got {len(kinds)}")
        words = tuple((query["text"] or "").lower().split())
        return cls(query["node"], query["user"], kinds, query["since"] or 0.0, words)

    def fits(self, record: EventRecord) -> bool:
        """Return whether the event is one of those."""
        return (
            record.time >= self.since
            and (self.node is None or record.node == self.node)
            and (self.user is None or record.user == self.user)
            and (not self.kinds or any(fnmatchcase(record.kind, kind) for kind in self.kinds))
            and (not self.words or self._says(record))
        )

    def _says(self, record: EventRecord) -> bool:
        named = (record.kind, record.message, record.job, record.node, record.user)
        text = "\n".join(each for each in named if each).lower()
        return all(word in text for word in self.words)


EVERYTHING = Wanted()


class EventFilter:
    """Selects the events that the caller asked for and may see."""

    def __init__(self, call: Call, job: str | None, wanted: Wanted = EVERYTHING) -> None:
        self._call = call
        self._asked = wanted
        self._owners: dict[str, str | None] = {}
        self._schedule_owners: dict[str, str | None] = {}
        record = call.api.store.job(job) if job is not None else None
        if record is not None:
            call.check_owner(record.user, f"job {record.name}")
        self._job = record.name if record is not None else job

    def matching(self, events: list[Event]) -> list[Event]:
        """Return those events, without the names of jobs that the caller may not see."""
        self._owners.clear()  # a stream lives long, and the next job of this name may be another user's
        self._schedule_owners.clear()
        return [self._redacted(event) for event in events if self._wanted(event)]

    def reaches(self, time: float) -> bool:
        """Return whether events older than this time may be wanted. Clocks of writers may differ a little."""
        return time >= self._asked.since - CLOCKS_DIFFER

    def _redacted(self, event: Event) -> Event:
        by = event.record.by
        if not by or self._call.sees(self._owner(by)):
            return event
        return event._replace(record=structs.replace(event.record, by=""))

    def _wanted(self, event: Event) -> bool:
        job, user = event.record.job, event.record.user
        if (self._job is not None and job != self._job) or not self._asked.fits(event.record):
            return False
        if job:
            return self._call.sees(user) or self._call.sees(self._owner(job))
        if event.record.schedule:
            return self._call.sees(user) or self._call.sees(self._schedule_owner(event.record.schedule))
        return not user or self._call.sees(user)

    def _owner(self, job: str) -> str | None:
        if job not in self._owners:
            record = self._call.api.store.job(job)
            self._owners[job] = record.user if record is not None else None
        return self._owners[job]

    def _schedule_owner(self, schedule: str) -> str | None:
        if schedule not in self._schedule_owners:
            record = self._call.api.store.schedule(schedule)
            self._schedule_owners[schedule] = record.user if record is not None else None
        return self._schedule_owners[schedule]


def _check_id(name: str, event_id: str | None) -> None:
    if event_id is None:
        return
    parts = event_id.split("-")
    if len(parts) != 2 or not all(part.isdecimal() and len(part) <= 20 for part in parts):
        raise InputError(f"query parameter {name}: must be the id of an event, got {event_id!r}")
