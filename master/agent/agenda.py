"""The master-agent's timers: what to do at a known steady time. Used by the loop and everything that sets a timer.

The agenda does nothing itself; the reactor carries out the items that are due.
"""

from __future__ import annotations

import heapq
from typing import Literal

Kind = Literal[
    "restart",
    "again",
    "begin",
    "deadline",
    "housekeeping",
    "nodes",
    "schedule",
    "drain",
    "plan",
    "reword",
    "usage",
    "refill",
    "retry",
    "operation",
    "setback",
]
WALL_CHECK = 30.0
"""Seconds between looks at the wall clock, at most, of what is due at a time of it: it may jump."""
Item = tuple[Kind, str, str, int]
"""(kind, job id or name of a schedule or node, component, index). Fields that do not apply are empty or 0."""


class Agenda:
    """A heap of timers. An item is never cancelled: its handler checks that it still applies."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, Item]] = []

    def add(self, at: float, kind: Kind, name: str = "", component: str = "", index: int = 0) -> None:
        heapq.heappush(self._heap, (at, (kind, name, component, index)))

    def due(self, now: float) -> list[Item]:
        """Remove and return the items that are due, the earliest first."""
        items = []
        while self._heap and self._heap[0][0] <= now:
            items.append(heapq.heappop(self._heap)[1])
        return items

    def wait(self, now: float, most: float) -> float:
        """Return the seconds until the next item, at most ``most``."""
        return max(0.0, min(most, self._heap[0][0] - now)) if self._heap else most
