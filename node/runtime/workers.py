"""Worker threads for blocking requests. Their results are handled in the caller's loop.

Used by ``reactor`` and ``kubernetes.outputs``.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from grass.errors import GrassError
from grass.system import clock

T = TypeVar("T")


class Workers:
    """Up to ``count`` threads, started on demand. ``wake`` is called in a thread when there is a result."""

    def __init__(self, count: int, wake: Callable[[], None]) -> None:
        self._count = count
        self._wake = wake
        self._queue: queue.SimpleQueue[tuple[Callable[[], Any], Callable[[Any], None]] | None] = queue.SimpleQueue()
        self._results: deque[tuple[Callable[[Any], None], Any]] = deque()
        self._threads: list[threading.Thread] = []
        self._open = 0
        """Number of requests without a handled result."""

    def ask(self, question: Callable[[], T], then: Callable[[T | GrassError], None]) -> None:
        """Run ``question`` in a thread; ``then`` gets its result, or the GrassError that it raised."""
        self._open += 1
        if len(self._threads) < min(self._count, self._open):
            thread = threading.Thread(target=self._run, name="engine", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._queue.put((question, then))

    def report(self, then: Callable[[], None]) -> None:
        """Call ``then`` in the loop, before the result. Called in one of the threads."""
        self._open += 1
        self._results.append((lambda _: then(), None))
        self._wake()

    def handle(self) -> None:
        """Call ``then`` for the results so far."""
        while self._results:
            then, result = self._results.popleft()
            self._open -= 1
            then(result)

    def close(self, deadline: float) -> bool:
        """Wait until this steady time for requests in progress. Queued requests are dropped. Return whether all have
        ended."""
        with suppress(queue.Empty):
            while True:
                self._queue.get_nowait()
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join(max(0.0, deadline - clock.steady()))
        return not any(thread.is_alive() for thread in self._threads)

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            question, then = work
            try:
                result: Any = question()
            except GrassError as error:
                result = error
            self._results.append((then, result))
            self._wake()
