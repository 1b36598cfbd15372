"""Ids of recent requests without a session, kept for as long as such a request is fresh. Used by ``freshness``."""

from __future__ import annotations

import threading

from grass.api.signing import FRESH_SECONDS

KEEP_SECONDS = 2 * FRESH_SECONDS
"""Seconds from the earliest to the latest time at which one request is fresh."""


class RecentIds:
    """Keeps each id for at least ``KEEP_SECONDS`` and at most twice that, in two sets that alternate. Thread-safe."""

    def __init__(self, now: float) -> None:
        self._lock = threading.Lock()
        self._turned = now
        self._new: set[str] = set()
        self._old: set[str] = set()

    def first_sight(self, request_id: str, now: float) -> bool:
        """Remember the id. Return False if it was seen before. ``now``: steady seconds."""
        with self._lock:
            if now - self._turned > KEEP_SECONDS:
                self._old, self._new, self._turned = self._new, set(), now
            if request_id in self._new or request_id in self._old:
                return False
            self._new.add(request_id)
            return True
