"""A runtime whose attempts exist in memory only, on any clock. For scenario tests and benches of large fleets."""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable, Iterable
from contextlib import suppress

from grass.model.reasons import Reason
from grass.system import clock
from node.runtime.parallelism import ParallelismLimits
from node.runtime.protocol import Launch, Listed, Observed, RuntimeEvent, Start, Stop

Life = tuple[float, int]
"""Seconds that an attempt runs, and its exit code."""


class SimulatedRuntime:
    """A ``Runtime`` without processes.

    ``life`` decides how long an attempt runs and its exit code. ``now``: steady clock. ``wall``: for display.

    An attempt obeys its stop signal at once, unless it is ``obstinate``: then it ends after its grace (signal 9).
    """

    def __init__(
        self,
        life: Callable[[Start], Life],
        now: Callable[[], float] = clock.steady,
        wall: Callable[[], float] = clock.wall,
        *,
        obstinate: Callable[[Start], bool] = lambda _: False,
    ) -> None:
        self._life = life
        self._now = now
        self._wall = wall
        self._obstinate = obstinate
        self._limits = ParallelismLimits()
        self._stop_signals: dict[str, int] = {}
        self._starts: dict[str, Start] = {}
        self._attempts: dict[str, Observed] = {}
        self._ends: list[tuple[float, int, str, int | None, int | None]] = []
        self._count = 0
        self.gone: list[str] = []
        """Tasks of which nothing is kept any more."""
        self._news: list[RuntimeEvent] = [Listed([])]
        self._wake = os.eventfd(1, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def define(self, launches: dict[str, Launch]) -> None:
        for name, launch in launches.items():
            self._stop_signals[name] = int(launch.stop_signal)
            self._begin(self._limits.set_width(name, launch.width))

    def drop(self, launches: Iterable[str]) -> None:
        for name in launches:
            self._limits.drop(name)

    def let_go(self, tasks: Iterable[str]) -> None:
        self.gone += tasks

    def start(self, starts: list[Start]) -> None:
        for start in starts:
            if start.key not in self._attempts:
                self._starts[start.key] = start
                self._attempts[start.key] = Observed(start.key, None, None, None, False, None, None, None, None, None)
                self._begin(self._limits.add(start.launch, start.key))

    def stop(self, stops: list[Stop]) -> None:
        for key, grace, reason in stops:
            attempt = self._attempts.get(key)
            if attempt is None or attempt.ended is not None or attempt.stopping:
                continue
            self._attempts[key] = attempt._replace(stopping=attempt.pid is not None, reason=reason)
            if attempt.pid is None:
                self._end(key, None, None)
            elif self._obstinate(self._starts[key]):
                self._end_at(self._now() + grace, key, None, 9)
            else:
                self._end(key, None, self._stop_signals.get(self._starts[key].launch, 15))

    def forget(self, keys: list[str]) -> None:
        for key in keys:
            attempt = self._attempts.get(key)
            if attempt and attempt.ended is not None:
                del self._attempts[key]

    def restart(self) -> None:
        """Simulate a restart of the shepherd: list everything again."""
        self._news = [Listed(list(self._attempts.values()))]
        os.eventfd_write(self._wake, 1)

    def receive(self) -> list[RuntimeEvent]:
        while self._ends and self._ends[0][0] <= self._now():
            _, _, key, code, number = heapq.heappop(self._ends)
            self._end(key, code, number)
        news, self._news = self._news, []
        with suppress(BlockingIOError):
            os.eventfd_read(self._wake)
        return news

    def fileno(self) -> int:
        return self._wake

    def due(self) -> float | None:
        return self._ends[0][0] if self._ends else None

    def trouble(self) -> Reason | None:
        return None

    def roots(self) -> list[int]:
        return []

    def close(self) -> None:
        os.close(self._wake)

    def _begin(self, keys: list[str]) -> None:
        for key in keys:
            self._count += 1
            now = self._now()
            self._tell(self._attempts[key]._replace(pid=self._count, started=self._wall(), since=now))
            seconds, code = self._life(self._starts[key])
            self._end_at(now + seconds, key, code, None)

    def _end_at(self, due: float, key: str, code: int | None, number: int | None) -> None:
        self._count += 1
        heapq.heappush(self._ends, (due, self._count, key, code, number))

    def _end(self, key: str, code: int | None, number: int | None) -> None:
        attempt = self._attempts.get(key)
        if attempt is None or attempt.ended is not None:
            return
        sizes = {"stdout": 0, "stderr": 0}
        self._tell(attempt._replace(ended=self._wall(), code=code, signal=number, sizes=sizes))
        self._begin(self._limits.leave(self._starts.pop(key).launch, key))

    def _tell(self, attempt: Observed) -> None:
        self._attempts[attempt.key] = attempt
        self._news.append(attempt)
        os.eventfd_write(self._wake, 1)
