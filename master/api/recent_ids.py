"""Request ids of requests without a session, remembered in this process for as long as such a request is fresh."""

from __future__ import annotations

import threading

from grass.api.signing import FRESH_SECONDS

KEEP_SECONDS = 2 * FRESH_SECONDS
"""From the earliest to the latest moment at which one request is fresh."""


class SeenHere:
    """Two sets that take turns: an id is remembered for one to two times ``KEEP_SECONDS``."""

    def __init__(self, now: float) -> None:
        self._lock = threading.Lock()
        self._turned = now
        self._new: set[str] = set()
        self._old: set[str] = set()

    def first_sight(self, request_id: str, now: float) -> bool:
        """``now``: steady seconds."""
        with self._lock:
            if now - self._turned > KEEP_SECONDS:
                self._old, self._new, self._turned = self._new, set(), now
            if request_id in self._new or request_id in self._old:
                return False
            self._new.add(request_id)
            return True
