"""Several runtimes behind one ``Runtime``: each launch goes to the runtime that it names.

A runtime that is away (a stopped container engine) must not block the others: after ``PATIENCE`` the node continues
without it. Its attempts are listed once it answers. Used by ``registry``.
"""

from __future__ import annotations

import select
from collections.abc import Iterable, Mapping

from grass.model.exhaustive import assert_never
from grass.model.reasons import Reason
from grass.system import clock
from node.runtime.protocol import Launch, Listed, Observed, Runtime, RuntimeEvent, Start, Stop, Waiting

PATIENCE = 5.0
"""Seconds that the first list waits for a runtime that does not answer."""


class CompositeRuntime:
    """A ``Runtime`` made of others.

    ``runtimes`` by name, as in ``Launch.runtime``. A launch that names another runtime must not be defined.
    """

    def __init__(self, runtimes: Mapping[str, Runtime], patience: float = PATIENCE) -> None:
        self._runtimes = dict(runtimes)
        self._launches: dict[str, str] = {}
        """Launch key → name of the runtime."""
        self._known: dict[str, dict[str, Observed]] = {name: {} for name in runtimes}
        self._silent = set(runtimes)
        """Names of runtimes that have not listed their attempts yet."""
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

    def let_go(self, tasks: Iterable[str]) -> None:
        gone = list(tasks)
        for runtime in self._runtimes.values():
            runtime.let_go(gone)

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
        """Return the events of all runtimes; none before the first list."""
        events: list[RuntimeEvent] = []
        lists = False
        for name, runtime in self._runtimes.items():
            for each in runtime.receive():
                match each:
                    case Listed(attempts=attempts):
                        self._silent.discard(name)
                        self._known[name] = {attempt.key: attempt for attempt in attempts}
                        lists = True
                    case Observed():
                        self._known[name][each.key] = each
                        events.append(each)
                    case Waiting():
                        events.append(each)
                    case _:
                        assert_never(each)
        if not self._listed:
            if self._silent and clock.steady() < self._patient_until:
                return []
            self._listed = lists = True
        return [*events, self._list()] if lists else events

    def fileno(self) -> int:
        return self._poll.fileno()

    def due(self) -> float | None:
        times = [due for due in (runtime.due() for runtime in self._runtimes.values()) if due is not None]
        if not self._listed:
            times.append(self._patient_until)
        return min(times, default=None)

    def trouble(self) -> Reason | None:
        """Return the first trouble. A node takes no tasks while one of its runtimes cannot start any."""
        return next(filter(None, (runtime.trouble() for runtime in self._runtimes.values())), None)

    def roots(self) -> list[int]:
        return [pid for runtime in self._runtimes.values() for pid in runtime.roots()]

    def close(self) -> None:
        for runtime in self._runtimes.values():
            runtime.close()
        self._poll.close()

    def _list(self) -> Listed:
        """Return a list of the attempts of all runtimes: what is not in a list does not exist."""
        return Listed([attempt for known in self._known.values() for attempt in known.values()])
