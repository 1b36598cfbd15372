"""The change feed: what changed after a cursor, as names. Read by the API server; the master-agent writes the stream.

A cursor is ``<entry of feed>/<entry of events>``. It stays valid until the stream is trimmed beyond it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from grass.errors import InputError
from grass.store.backend import Backend
from grass.store.decoding import sound
from grass.store.keys import Keys
from grass.wire.feed_entry import FEED_ENTRY, FeedEntry

_AT_ONCE = 500
"""Entries that one read returns."""
_CURSOR = re.compile(r"(\d{1,20})-(\d{1,20})/(\d{1,20})-(\d{1,20})", re.ASCII)


@dataclass(frozen=True)
class Cursor:
    """A position in the feed.

    ``feed``, ``events``: ids of the last known entries of both streams.
    """

    feed: str
    events: str

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """Return the cursor in ``text``. Raises InputError."""
        if not _CURSOR.fullmatch(text):
            raise InputError(f"query parameter after: must be the cursor of a change, got {text!r}")
        feed, _, events = text.partition("/")
        return cls(feed, events)

    def __str__(self) -> str:
        return f"{self.feed}/{self.events}"


@dataclass
class Changed:
    """Names of what changed between two cursors, each once."""

    jobs: set[str] = field(default_factory=set)
    removed: dict[str, str] = field(default_factory=dict)
    """Job id → user."""
    tasks: dict[str, set[str]] = field(default_factory=dict)
    """Job id → tasks."""
    nodes: set[str] = field(default_factory=set)
    schedules: set[str] = field(default_factory=set)
    removed_schedules: dict[str, str] = field(default_factory=dict)
    """Name → user. Another schedule may have the name meanwhile."""
    events: bool = False
    """Whether there are new events."""

    def add(self, entry: FeedEntry) -> None:
        self.jobs.update(entry.jobs)
        self.removed.update(entry.removed)
        self.nodes.update(entry.nodes)
        self.schedules.update(entry.schedules)
        self.removed_schedules.update(entry.removed_schedules)
        for job_id, tasks in entry.tasks.items():
            self.tasks.setdefault(job_id, set()).update(tasks)


class ChangeFeed:
    """Safe for several threads; each reader has its own cursor."""

    def __init__(self, backend: Backend, keys: Keys) -> None:
        self._backend = backend
        self._keys = keys

    def now(self) -> Cursor:
        """Return the cursor of the present. Take it before reading a snapshot: then no later change is missed."""
        newest = (self._backend.newest(key) for key in (self._keys.feed, self._keys.events))
        return Cursor(*(entry[0] if entry else "0-0" for entry in newest))

    def reaches(self, cursor: Cursor) -> bool:
        """Return whether all entries after the cursor are still there. False also for a cursor of another store."""
        oldest, newest = self._backend.stream(self._keys.feed, "0", 1), self._backend.newest(self._keys.feed)
        if not oldest or newest is None:
            return cursor.feed == "0-0"
        return _order(oldest[0][0]) <= _order(cursor.feed) <= _order(newest[0])

    def after(self, cursor: Cursor, seconds: float) -> tuple[Changed, Cursor] | None:
        """Return what changed after the cursor, and the new cursor; wait up to ``seconds`` for the first change.

        The new cursor has the old ``events``; whoever reads the events knows the id of the last one. None: entries
        were trimmed before they were read, so only a new snapshot is complete.
        """
        changed, feed = Changed(), cursor.feed
        found = self._backend.wait({self._keys.feed: feed, self._keys.events: cursor.events}, seconds, _AT_ONCE)
        changed.events = self._keys.events in found
        entries = found.get(self._keys.feed, [])
        while entries:
            feed = entries[-1][0]
            texts = ((entry_id, fields.get("body", "")) for entry_id, fields in entries)
            for _, entry in sound(FEED_ENTRY, self._keys.feed, texts):
                changed.add(entry)
            entries = self._backend.stream(self._keys.feed, feed, _AT_ONCE) if len(entries) == _AT_ONCE else []
        if feed != cursor.feed and not self.reaches(cursor):
            return None
        return changed, Cursor(feed, cursor.events)


def _order(entry_id: str) -> tuple[int, int]:
    first, _, second = entry_id.partition("-")
    return int(first), int(second)
