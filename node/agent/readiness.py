"""Readiness checks of running attempts. Used by the node-agent's loop; calls back from its threads.

Each check is repeated, often at first, until it passes, the attempt ends, or its time is over. Threads exist only
while there are checks. One thread, the leader, waits for the next check that is due. While it runs that check, another
thread leads, so that a hanging check delays no other. Commands may hang, and many at once: they have threads apart
from the checks of ports and logs.
"""

from __future__ import annotations

import heapq
import itertools
import math
import threading
from collections.abc import Callable
from enum import Enum

from grass.system import clock
from node.agent.check import Check
from node.agent.child_programs import ChildPrograms

WORKERS = 64
"""Most checks that run at the same time."""
REPORT_AFTER = 2.0
"""Seconds after the start of an attempt from which on it is reported why it is not ready yet."""
_IDLE_SECONDS = 5.0
"""An idle thread ends after so many seconds."""


class Verdict(str, Enum):
    """The result for one attempt. NOT_READY: its time is over."""

    READY = "ready"
    NOT_YET = "not-yet"
    NOT_READY = "not-ready"


Report = Callable[[Verdict, str, str], None]
"""``report(verdict, key, failure)``, called in a thread."""


class Readiness:
    """Runs checks: one ``_Checks`` for commands, one for ports and logs."""

    def __init__(self, report: Report) -> None:
        self._commands, self._looks = _Checks(report), _Checks(report)

    def watch(self, check: Check) -> None:
        (self._looks if check.ready.command is None else self._commands).watch(check)

    def drop(self, key: str) -> None:
        self._commands.drop(key)
        self._looks.drop(key)

    def stop(self) -> None:
        """Kill the commands of checks, without waiting."""
        self._commands.stop()
        self._looks.stop()


class _Checks:
    """Checks of one kind, made by a few threads.

    ``report`` is called once with READY or NOT_READY for each watched attempt. Before that it is called with NOT_YET
    after a while, and each time the failure changes. For a dropped attempt it is not called.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        """The leader waits here."""
        self._needed = threading.Condition(self._lock)
        """Idle threads wait here."""
        self._leading = False
        self._idle = 0
        self._threads: list[threading.Thread] = []
        self._watched: dict[str, Check] = {}
        self._due: list[tuple[float, int, Check]] = []
        self._tried: set[Check] = set()
        """Checks that run now."""
        self._order = itertools.count()
        self._programs = ChildPrograms()
        self._stopping = False

    def watch(self, check: Check) -> None:
        with self._lock:
            if check.key in self._watched or self._stopping:
                return
            now = clock.steady()
            check.allow(now)
            self._watched[check.key] = check
            self._push(now, check)
            self._lead()

    def drop(self, key: str) -> None:
        with self._lock:
            check = self._watched.pop(key, None)
        if check is not None:
            check.cancel()

    def stop(self) -> None:
        with self._lock:
            self._stopping = True
            self._changed.notify_all()
            self._needed.notify_all()
            tried = list(self._tried)
        for check in tried:
            check.cancel()
        self._programs.close()

    def _run(self) -> None:
        while True:
            found = self._next()
            if found is None:
                return
            check, late = found
            if late:
                check.cancel()
                self._report(Verdict.NOT_READY, check.key, check.failed or "its check has not ended yet")
                continue
            self._report_result(check, check.failure(self._programs))

    def _report_result(self, check: Check, failure: str) -> None:
        now = clock.steady()
        with self._lock:
            self._tried.discard(check)
            if self._watched.get(check.key) is not check:
                return
            if failure and now < check.deadline:
                check.failed = failure
                self._push(min(now + check.pause.next(), check.deadline), check)
                if now < check.since + REPORT_AFTER or failure == check.reported:
                    return
                what, check.reported = Verdict.NOT_YET, failure
            else:
                what = Verdict.NOT_READY if failure else Verdict.READY
                del self._watched[check.key]
        self._report(what, check.key, failure)

    # the methods below are called with the lock held

    def _push(self, due: float, check: Check) -> None:
        heapq.heappush(self._due, (due, next(self._order), check))
        self._changed.notify()

    def _lead(self) -> None:
        """Make sure that there is a leader, if the number of threads permits."""
        if self._leading:
            return
        if self._idle:
            self._needed.notify()
        elif len(self._threads) < WORKERS:
            thread = threading.Thread(target=self._run, name="readiness", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _next(self) -> tuple[Check, bool] | None:
        """Return the next check, and whether its deadline has passed. None: the calling thread must end."""
        with self._lock:
            while not self._stopping:
                found = self._ripe(clock.steady())
                if found is not None:
                    self._lead()
                    return found
                if not self._due and not self._tried:
                    break
                if not self._leading:
                    self._leading = True
                    self._changed.wait(self._pause(clock.steady()))
                    self._leading = False
                elif not self._stay():
                    break
            self._threads.remove(threading.current_thread())
        return None

    def _stay(self) -> bool:
        """Wait as an idle thread. Return whether the thread is needed again."""
        self._idle += 1
        needed = self._needed.wait(_IDLE_SECONDS)
        self._idle -= 1
        return needed or not self._leading

    def _ripe(self, now: float) -> tuple[Check, bool] | None:
        for check in self._tried:
            if check.deadline <= now and self._watched.get(check.key) is check:
                del self._watched[check.key]
                return check, True
        while self._due:
            due, _, check = self._due[0]
            watched = self._watched.get(check.key) is check
            if watched and due > now:
                return None
            heapq.heappop(self._due)
            if watched:
                late = check.deadline <= now and bool(check.failed)
                if late:
                    del self._watched[check.key]
                else:
                    self._tried.add(check)
                return check, late
        return None

    def _pause(self, now: float) -> float | None:
        """Return the seconds until a check is due or late."""
        times = [check.deadline for check in self._tried if self._watched.get(check.key) is check]
        first = min([*times, self._due[0][0] if self._due else math.inf])
        return None if first == math.inf else max(0.0, first - now)
