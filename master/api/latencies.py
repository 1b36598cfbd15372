"""Counts requests by route and latency, for ``/metrics``. Used by ``call``, in all of the server's threads."""

from __future__ import annotations

import threading
from bisect import bisect_left

from msgspec import structs

from grass.wire.api_figures import LATENCIES, ApiFigures, Operation


class Latencies:
    """Counts since the start of the server. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._operations: dict[str, Operation] = {}

    def add(self, operation: str, seconds: float, status: int) -> None:
        with self._lock:
            known = self._operations.get(operation)
            if known is None:
                known = self._operations[operation] = Operation([0] * (len(LATENCIES) + 1))
            known.counts[bisect_left(LATENCIES, seconds)] += 1
            known.seconds += seconds
            known.errors += status >= 500

    def figures(self, waiting: int) -> ApiFigures:
        """Return the figures so far. ``waiting``: requests that wait or follow now."""
        with self._lock:
            copies = {name: structs.replace(each, counts=list(each.counts)) for name, each in self._operations.items()}
        return ApiFigures(copies, waiting)
