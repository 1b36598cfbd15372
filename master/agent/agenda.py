"""What is to be done at a known time: steady seconds, a kind, and whom it concerns."""

from __future__ import annotations

import heapq
from typing import Literal

Kind = Literal[
    "restart", "deadline", "housekeeping", "nodes", "schedule", "drain", "plan", "reword", "usage", "refill", "retry"
]
Item = tuple[Kind, str, str, int]
"""Kind, job id or name of a schedule or node, component, index (empty and 0 where they do not apply)."""


class Agenda:
    def __init__(self) -> None:
        self._heap: list[tuple[float, Item]] = []

    def add(self, at: float, kind: Kind, name: str = "", component: str = "", index: int = 0) -> None:
        heapq.heappush(self._heap, (at, (kind, name, component, index)))

    def due(self, now: float) -> list[Item]:
        items = []
        while self._heap and self._heap[0][0] <= now:
            items.append(heapq.heappop(self._heap)[1])
        return items

    def wait(self, now: float, most: float) -> float:
        """Seconds until the next item, at most ``most``."""
        return max(0.0, min(most, self._heap[0][0] - now)) if self._heap else most
