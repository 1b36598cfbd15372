"""The master-agent's timers: what to do at a known steady time. Used by the loop and everything that sets a timer.

The agenda does nothing itself; the reactor carries out the items that are due.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Literal

Kind = Literal[
    "restart",
    "again",
    "begin",
    "deadline",
    "ahead",
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
    "checked",
]
WALL_CHECK = 30.0
"""Seconds between looks at the wall clock, at most, of what is due at a time of it: it may jump."""
Item = tuple[Kind, str, str, int]
"""(kind, job id or name of a schedule or node, component, index). Fields that do not apply are empty or 0."""


OF_JOBS: frozenset[Kind] = frozenset({"restart", "again", "deadline", "ahead", "operation", "setback"})
"""Kinds of items that do nothing once their job has ended."""
_FEW = 200


class Agenda:
    """A heap of timers. An item is never cancelled: its handler checks that it still applies."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, Item]] = []
        self._swept = 0

    def __len__(self) -> int:
        return len(self._heap)

    def sweep(self, is_active: Callable[[str], bool]) -> None:
        """Remove the items of jobs that are not active, if there may be more of these than of others. Time limits of
        weeks would keep them for weeks."""
        if len(self._heap) < 2 * self._swept + _FEW:
            return
        self._heap = [each for each in self._heap if each[1][0] not in OF_JOBS or is_active(each[1][1])]
        heapq.heapify(self._heap)
        self._swept = len(self._heap)

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
