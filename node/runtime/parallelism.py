"""How many attempts of one launch may run at once. Pure; the shepherd and the simulated runtime share it.

The runtime keeps this count itself, so that an end is followed by the next start at once, without asking anybody.
"""

from __future__ import annotations

from collections import deque


class _Lane:
    def __init__(self) -> None:
        self.width: int | None = None
        self.running: set[str] = set()
        self.waiting: set[str] = set()
        self.order: deque[str] = deque()

    def admit(self) -> list[str]:
        admitted = []
        while self.order and (self.width is None or len(self.running) < self.width):
            key = self.order.popleft()
            if key in self.waiting:  # else it left while it waited
                self.waiting.discard(key)
                self.running.add(key)
                admitted.append(key)
        return admitted


class Lanes:
    """Keys come in by ``add``, in order, and leave by ``leave``. Each call returns the keys that may start now."""

    def __init__(self) -> None:
        self._lanes: dict[str, _Lane] = {}

    def widen(self, name: str, width: int | None) -> list[str]:
        lane = self._lanes.setdefault(name, _Lane())
        lane.width = width
        return lane.admit()

    def add(self, name: str, key: str) -> list[str]:
        lane = self._lanes.setdefault(name, _Lane())
        lane.waiting.add(key)
        lane.order.append(key)
        return lane.admit()

    def enter(self, name: str, key: str) -> None:
        """It runs already."""
        self._lanes.setdefault(name, _Lane()).running.add(key)

    def leave(self, name: str, key: str) -> list[str]:
        """It has ended, or will not start."""
        lane = self._lanes.get(name)
        if lane is None:
            return []
        lane.waiting.discard(key)
        lane.running.discard(key)
        return lane.admit()

    def drop(self, name: str) -> None:
        """Forget the width of a launch that nobody will start any more, unless something of it is still here."""
        lane = self._lanes.get(name)
        if lane and not lane.running and not lane.waiting:
            del self._lanes[name]

    def waiting(self) -> list[str]:
        return [key for lane in self._lanes.values() for key in lane.order if key in lane.waiting]
