"""Bounds what nodes put into ``shared:*``, where every node may write. Used by the master-agent only.

A sound node keeps to the limits of its membership API. One that was taken over writes to redis directly, under any
name. So whenever the server's memory has grown, values of jobs that are not active are removed, and those of a job with
too many. The master stores no list of what is shared: it looks through the names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from grass.store.keys import Keys
from grass.store.redis_backend import RedisBackend

GROWTH = 128 << 20
"""Bytes by which the server grows between two looks."""
MOST_BYTES = 256 << 20
"""Most bytes of the values of one job."""
MOST_VALUES = 200_000
"""Most values of one job."""


class SharedBound:
    """One per master-agent. Methods raise UnreachableError."""

    def __init__(
        self,
        backend: RedisBackend,
        prefix: str,
        growth: int = GROWTH,
        most_bytes: int = MOST_BYTES,
        most_values: int = MOST_VALUES,
    ) -> None:
        self._backend = backend
        self._start = Keys(prefix).shared("", "").rstrip(":") + ":"
        self._growth = growth
        self._most = most_bytes, most_values
        self._seen: int | None = None
        """The server's memory after the last look."""

    def keep(self, active: Callable[[], Collection[str]]) -> int:
        """Remove what is too much. ``active``: spaces of the active jobs. Return how many values were removed."""
        used = self._backend.used_memory()
        if self._seen is None or used < self._seen:
            self._seen = used
        if used - self._seen < self._growth:
            return 0
        removed = self._look(active())
        self._seen = self._backend.used_memory()
        return removed

    def _look(self, active: Collection[str]) -> int:
        removed = 0
        sizes: dict[str, tuple[int, int]] = {}
        for names in self._backend.names(f"{self._start}*"):
            own = [name for name in names if self._space(name) in active]
            kept = set(own)
            removed += self._backend.remove([name for name in names if name not in kept])
            for name, length in zip(own, self._backend.lengths(own), strict=True):
                count, size = sizes.get(self._space(name), (0, 0))
                sizes[self._space(name)] = count + 1, size + length
        for space in excessive(sizes, *self._most):
            for names in self._backend.names(f"{self._start}{space}:*"):
                removed += self._backend.remove(names)
        return removed

    def _space(self, name: str) -> str:
        return name.removeprefix(self._start).partition(":")[0]


def excessive(sizes: Mapping[str, tuple[int, int]], most_bytes: int, most_values: int) -> list[str]:
    """Return the spaces with too many values or bytes. ``sizes``: space → number of values, bytes."""
    return [space for space, (count, size) in sizes.items() if count > most_values or size > most_bytes]
