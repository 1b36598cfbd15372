"""Merges pieces of the change feed: the newest version of each thing, and what is gone. Pure.

One that is never emptied is the state of the cluster; one that a reader empties has what is new for this reader.
Used by ``app`` and ``mirror``.
"""

from __future__ import annotations

from collections import deque
from typing import Any

Piece = dict[str, Any]  # Any: JSON of grass.wire.status_views.ChangePiece
KEYS = {"jobs": "id", "tasks": "task", "nodes": "name", "schedules": "name"}
MOST_JOBS = 2_000
"""Jobs that are kept. Finished jobs that ended first are dropped first."""
MOST_EVENTS = 500
_SINGLE = ("time", "counts", "store", "link", "me")
_LASTING = ("link", "me")
"""What a snapshot does not replace: it is said by the mirror."""
_ENDED = ("SUCCEEDED", "FAILED", "STOPPED")


class MergedFeed:
    """Things by kind and name, as they are now."""

    def __init__(self) -> None:
        self._clear(snapshot=False)

    def __bool__(self) -> bool:
        return self._fresh

    def _clear(self, *, snapshot: bool) -> None:
        self._fresh = snapshot
        self._snapshot = snapshot
        self._things: dict[str, dict[str, Piece]] = {kind: {} for kind in KEYS}
        self._removed: dict[str, dict[str, None]] = {kind: {} for kind in KEYS}
        self._events: deque[Piece] = deque(maxlen=MOST_EVENTS)
        self._single: Piece = {}

    def add(self, piece: Piece) -> None:
        """Merge one piece. A piece that has only the time is not news."""
        if piece.get("snapshot"):
            lasting = {name: self._single[name] for name in _LASTING if name in self._single}
            self._clear(snapshot=True)
            self._single = lasting
        for kind, key in KEYS.items():
            for thing in piece.get(kind, ()):
                self._things[kind][thing[key]] = thing
                self._removed[kind].pop(thing[key], None)
            for name in piece.get("removed", {}).get(kind, ()):
                self._things[kind].pop(name, None)
                if not self._snapshot:  # what is not in a snapshot is gone anyway, and the state is one forever
                    self._removed[kind][name] = None
        self._events.extend(piece.get("events", ()))
        self._single.update((name, piece[name]) for name in _SINGLE if name in piece)
        self._fresh |= bool(piece.keys() - {"cursor", "time", "complete"})
        self._drop_old_jobs()

    def _drop_old_jobs(self) -> None:
        jobs = self._things["jobs"]
        if len(jobs) > MOST_JOBS:
            ended = sorted((job["ended"] or 0.0, name) for name, job in jobs.items() if job["state"] in _ENDED)
            for _, name in ended[: len(jobs) - MOST_JOBS]:
                del jobs[name]

    def whole(self) -> Piece:
        """Return all as one snapshot, and keep it."""
        return {**self._message(), "snapshot": True}

    def take(self) -> Piece:
        """Return what was merged since the last call."""
        message = self._message()
        if self._snapshot:
            message["snapshot"] = True
        self._clear(snapshot=False)
        return message

    def _message(self) -> Piece:
        message = dict(self._single)
        for kind, things in self._things.items():
            if things:
                message[kind] = list(things.values())
        removed = {kind: list(names) for kind, names in self._removed.items() if names}
        if removed:
            message["removed"] = removed
        if self._events:
            message["events"] = list(self._events)
        return message
