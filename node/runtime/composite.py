"""Several runtimes as one: each launch goes to the one that it names; what they say is said by one.

A runtime that is away (an engine that was stopped) must not keep the others from working: after ``PATIENCE`` the node
goes on without it. What it has is listed when it is there.
"""

from __future__ import annotations

import select
from collections.abc import Iterable, Mapping

from grass import clock
from grass.model.reasons import Reason
from node.runtime.protocol import Launch, Listed, Observed, Runtime, RuntimeEvent, Start, Stop

PATIENCE = 5.0
"""Seconds that the first list waits for a runtime that does not answer."""


class CompositeRuntime:
    """``runtimes`` by name, as in ``Launch.runtime``; launches that name another are not to be defined."""

    def __init__(self, runtimes: Mapping[str, Runtime], patience: float = PATIENCE) -> None:
        self._runtimes = dict(runtimes)
        self._launches: dict[str, str] = {}
        """Launch key → name of the runtime."""
        self._known: dict[str, dict[str, Observed]] = {name: {} for name in runtimes}
        self._silent = set(runtimes)
        """Have not listed anything yet."""
        self._listed = False
        self._patient_until = clock.steady() + patience
        self._poll = select.epoll()
        for runtime in runtimes.values():
            self._poll.register(runtime.fileno(), select.EPOLLIN)

    def define(self, launches: dict[str, Launch]) -> None:
        for key, launch in launches.items():
            self._launches[key] = launch.runtime
            self._runtimes[launch.runtime].define({key: launch})

    def drop(self, launches: Iterable[str]) -> None:
        gone = list(launches)
        for key in gone:
            self._launches.pop(key, None)
        for runtime in self._runtimes.values():
            runtime.drop(gone)

    def start(self, starts: list[Start]) -> None:
        by_runtime: dict[str, list[Start]] = {}
        for start in starts:
            by_runtime.setdefault(self._launches[start.launch], []).append(start)
        for name, group in by_runtime.items():
            self._runtimes[name].start(group)

    def stop(self, stops: list[Stop]) -> None:
        for runtime in self._runtimes.values():
            runtime.stop(stops)

    def forget(self, keys: list[str]) -> None:
        for name, runtime in self._runtimes.items():
            runtime.forget(keys)
            for key in keys:
                self._known[name].pop(key, None)

    def receive(self) -> list[RuntimeEvent]:
        """Before the first list nothing else is said."""
        news: list[RuntimeEvent] = []
        lists = False
        for name, runtime in self._runtimes.items():
            for each in runtime.receive():
                if isinstance(each, Listed):
                    self._silent.discard(name)
                    self._known[name] = {attempt.key: attempt for attempt in each.attempts}
                    lists = True
                    continue
                if isinstance(each, Observed):
                    self._known[name][each.key] = each
                news.append(each)
        if not self._listed:
            if self._silent and clock.steady() < self._patient_until:
                return []
            self._listed = lists = True
        return [*news, self._list()] if lists else news

    def fileno(self) -> int:
        return self._poll.fileno()

    def due(self) -> float | None:
        times = [due for due in (runtime.due() for runtime in self._runtimes.values()) if due is not None]
        if not self._listed:
            times.append(self._patient_until)
        return min(times, default=None)

    def trouble(self) -> Reason | None:
        """The first that there is. A node whose tasks cannot be started by one of its runtimes takes none."""
        return next(filter(None, (runtime.trouble() for runtime in self._runtimes.values())), None)

    def roots(self) -> list[int]:
        return [pid for runtime in self._runtimes.values() for pid in runtime.roots()]

    def close(self) -> None:
        for runtime in self._runtimes.values():
            runtime.close()
        self._poll.close()

    def _list(self) -> Listed:
        """Also of the runtimes that did not list anything just now: a list is all that exists."""
        return Listed([attempt for known in self._known.values() for attempt in known.values()])
