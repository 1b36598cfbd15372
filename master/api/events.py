"""`/v1/events`: what happened, and who did it. Users see events of their own jobs, and of the cluster."""

from __future__ import annotations

from collections.abc import Iterator

from flask import Blueprint
from msgspec import structs

from grass.errors import InputError
from grass.store.api_store import Event
from grass.wire.views import EventPiece
from master.api.call import HEARTBEAT, Api, Call, Pieces
from master.api.feed import PAUSE
from master.api.registry import noun_blueprint
from master.api.views import event_view

AT_ONCE = 1000
"""Events that one read of the store returns at most."""
FEW = 100
"""Events that the first read returns, if only a few are wanted."""


def blueprint(api: Api) -> Blueprint:
    return noun_blueprint("events", api, {"list": list_events})


def list_events(call: Call) -> Pieces:
    """Stream ``{"events": [...], "after": id, "open": bool}``. ``open`` in the last piece: ask again for more."""
    chosen = _Filter(call, call.query["job"])
    after = call.query["after"]
    if after is not None:
        _check_id(after)
        return _follow(call, chosen, after) if call.query["follow"] else _all(call, chosen, after)
    return _newest(call, chosen)


def _newest(call: Call, chosen: _Filter) -> Pieces:
    """Stream the newest ``limit`` events. Reads from the end backwards, no further than necessary."""
    limit, kept, before = call.query["limit"], list[Event](), None
    after = "0-0"
    while events := call.api.store.events_before(before, min(AT_ONCE, max(FEW, limit))):
        after = events[0].id if before is None else after
        before = events[-1].id
        kept += chosen.of(events)
        if len(kept) >= limit:
            break
    yield _piece(kept[:limit][::-1], after, is_open=call.query["follow"])
    if call.query["follow"]:
        yield from _follow(call, chosen, after)


def _read(call: Call, chosen: _Filter, after: str) -> Iterator[EventPiece]:
    """Yield all events that there are now."""
    while events := call.api.store.events(after, AT_ONCE):
        after = events[-1].id
        yield _piece(chosen.of(events), after, is_open=False)


def _all(call: Call, chosen: _Filter, after: str) -> Pieces:
    yield from _read(call, chosen, after)


def _follow(call: Call, chosen: _Filter, after: str) -> Pieces:
    with call.api.waiting_slots.take() as granted, call.api.feed.listen() as changed:
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


def _piece(events: list[Event], after: str, *, is_open: bool) -> EventPiece:
    return EventPiece(tuple(event_view(event) for event in events), after, is_open)


class _Filter:
    """Selects the events that the caller asked for and may see."""

    def __init__(self, call: Call, job: str | None) -> None:
        self._call = call
        self._owners: dict[str, str | None] = {}
        record = call.api.store.job(job) if job is not None else None
        if record is not None:
            call.check_owner(record.user, f"job {record.name}")
        self._job = record.name if record is not None else job

    def of(self, events: list[Event]) -> list[Event]:
        return [event for event in events if self._wanted(event)]

    def _wanted(self, event: Event) -> bool:
        job, user = event.record.job, event.record.user
        if self._job is not None and job != self._job:
            return False
        if job:
            return self._call.sees(user) or self._call.sees(self._owner(job))
        return not user or self._call.sees(user)

    def _owner(self, job: str) -> str | None:
        if job not in self._owners:
            record = self._call.api.store.job(job)
            self._owners[job] = record.user if record is not None else None
        return self._owners[job]


def _check_id(event_id: object) -> None:
    parts = str(event_id).split("-")
    if len(parts) != 2 or not all(part.isdecimal() and len(part) <= 20 for part in parts):
        raise InputError(f"query parameter after: must be the id of an event, got {event_id!r}")
