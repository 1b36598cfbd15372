"""Calls to make at a steady time. Used by the loops of ``shepherd``, ``docker.reactor`` and ``node.agent.loop``."""

from __future__ import annotations

import heapq
from collections.abc import Callable


class Timers:
    """Calls at steady times, the earliest first. Not safe for several threads."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def at(self, due: float, action: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._heap, (due, self._count, action))

    @property
    def due(self) -> float | None:
        """Return the time of the next call."""
        return self._heap[0][0] if self._heap else None

    def run(self, now: float) -> None:
        while self._heap and self._heap[0][0] <= now:
            heapq.heappop(self._heap)[2]()
