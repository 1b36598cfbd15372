"""Parallelism limits: how many attempts of one launch may run at once. Pure; used by all runtimes.

The runtime enforces the limit itself, so that the next attempt starts at once when one ends, without the master.
"""

from __future__ import annotations

from collections import deque


class _Limit:
    def __init__(self) -> None:
        self.width: int | None = None
        self.running: set[str] = set()
        self.waiting: set[str] = set()
        self.order: deque[str] = deque()

    def admit(self) -> list[str]:
        admitted = []
        while self.order and (self.width is None or len(self.running) < self.width):
            key = self.order.popleft()
            if key in self.waiting:  # otherwise it left while it waited
                self.waiting.discard(key)
                self.running.add(key)
                admitted.append(key)
        return admitted


class ParallelismLimits:
    """The limits of all launches. Keys arrive in order by ``add`` and leave by ``leave``; each call returns the keys
    that may start now."""

    def __init__(self) -> None:
        self._limits: dict[str, _Limit] = {}

    def set_width(self, name: str, width: int | None) -> list[str]:
        limit = self._limits.setdefault(name, _Limit())
        limit.width = width
        return limit.admit()

    def add(self, name: str, key: str) -> list[str]:
        limit = self._limits.setdefault(name, _Limit())
        limit.waiting.add(key)
        limit.order.append(key)
        return limit.admit()

    def add_running(self, name: str, key: str) -> None:
        """Count an attempt that runs already."""
        self._limits.setdefault(name, _Limit()).running.add(key)

    def leave(self, name: str, key: str) -> list[str]:
        """Remove an attempt that has ended or will not start."""
        limit = self._limits.get(name)
        if limit is None:
            return []
        limit.waiting.discard(key)
        limit.running.discard(key)
        return limit.admit()

    def drop(self, name: str) -> None:
        """Forget a launch that gets no more attempts, unless some of it run or wait."""
        limit = self._limits.get(name)
        if limit and not limit.running and not limit.waiting:
            del self._limits[name]

    def waiting(self) -> list[str]:
        return [key for limit in self._limits.values() for key in limit.order if key in limit.waiting]
