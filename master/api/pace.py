"""Bounds what change streams cost the server: the more a piece cost, the later the next one. Used by ``call``."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

ALONE = 0.02
"""Share of a core that one stream may use."""
TOGETHER = 0.05
"""Share of a core that all streams may use."""
SHORTEST = 0.25
"""Least seconds between two pieces. What changes meanwhile is in one piece."""
LONGEST = 5.0


class Pace:
    """Knows how many streams are open. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count one stream while it is open."""
        with self._lock:
            self._open += 1
        try:
            yield
        finally:
            with self._lock:
                self._open -= 1

    def rest(self, cost: float) -> float:
        """Return how long a stream rests after a piece that cost so many seconds of CPU time."""
        return min(LONGEST, max(SHORTEST, cost / min(ALONE, TOGETHER / max(1, self._open))))
