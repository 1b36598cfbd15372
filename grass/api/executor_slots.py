"""How many calls of ``Executor.submit`` may run at once. Used by ``executor``."""

from __future__ import annotations

import threading
from collections.abc import Collection
from concurrent.futures import Future
from typing import Any


class _Batch:
    """Calls of one job: at most ``at_once`` of them run, of ``left`` that have not ended."""

    def __init__(self, at_once: int, left: int) -> None:
        self.at_once, self.left = at_once, left


class Slots:
    """At most ``most`` calls at once, over all jobs of an executor."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._batches: set[_Batch] = set()
        self._changed = threading.Condition()
        self._closed = False

    def wait(self) -> int:
        """Wait until a further call may run. Return how many may; 0: ``close`` was called."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._free() > 0)
            return 0 if self._closed else self._free()

    def take(self, at_once: int, futures: Collection[Future[Any]]) -> None:
        """Count the calls of a job until they have ended. ``at_once``: how many of them run together."""
        batch = _Batch(at_once, len(futures))
        with self._changed:
            self._batches.add(batch)
        for future in futures:
            future.add_done_callback(lambda _: self._end(batch))

    def close(self) -> None:
        """Let nobody wait any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _end(self, batch: _Batch) -> None:
        with self._changed:
            batch.left -= 1
            if not batch.left:
                self._batches.discard(batch)
            self._changed.notify_all()

    def _free(self) -> int:
        return self._most - sum(min(batch.at_once, batch.left) for batch in self._batches)
