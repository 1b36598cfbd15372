"""Readiness checks of running attempts.

Each is tried again and again, often at first, until it passes, the attempt ends, or its time is over. All of it happens
in threads of its own, which exist only while something is checked: one waits for what is due next, and another takes
its place while it tries that, so that a check that hangs delays no other. Commands may hang, and many of them at once:
they have threads apart from those that look at ports and logs.
"""

from __future__ import annotations

import heapq
import itertools
import math
import threading
from collections.abc import Callable
from enum import Enum

from grass import clock
from node.agent.check import Check
from node.agent.child_programs import ChildPrograms

WORKERS = 64
"""Checks that are tried at the same time at most."""
WORTH_TELLING = 2.0
"""Seconds after which it is said why an attempt is not ready yet."""
_SPARE_SECONDS = 5.0
"""A thread that nothing needed for so long ends."""


class Verdict(str, Enum):
    """About one attempt. NOT_READY: not in time."""

    READY = "ready"
    NOT_YET = "not-yet"
    NOT_READY = "not-ready"


Say = Callable[[Verdict, str, str], None]
"""``say(verdict, key, failure)``, in a thread."""


class Readiness:
    """What ``_Checks`` does, of checks of both kinds."""

    def __init__(self, say: Say) -> None:
        self._commands, self._looks = _Checks(say), _Checks(say)

    def watch(self, check: Check) -> None:
        (self._looks if check.ready.command is None else self._commands).watch(check)

    def drop(self, key: str) -> None:
        self._commands.drop(key)
        self._looks.drop(key)

    def stop(self) -> None:
        """Kills what checks run; does not wait."""
        self._commands.stop()
        self._looks.stop()


class _Checks:
    """``say`` is called with READY or NOT_READY once for each watched attempt, before that with NOT_YET when it was
    long enough, and when the failure is another. A dropped one is silent.
    """

    def __init__(self, say: Say) -> None:
        self._say = say
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        """Waited for by the one thread that waits for what is due next."""
        self._needed = threading.Condition(self._lock)
        """Waited for by the spare ones."""
        self._leading = False
        self._spare = 0
        self._threads: list[threading.Thread] = []
        self._watched: dict[str, Check] = {}
        self._due: list[tuple[float, int, Check]] = []
        self._tried: set[Check] = set()
        """Now."""
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
                self._say(Verdict.NOT_READY, check.key, check.failed or "its check has not ended yet")
                continue
            self._tell(check, check.failure(self._programs))

    def _tell(self, check: Check, failure: str) -> None:
        now = clock.steady()
        with self._lock:
            self._tried.discard(check)
            if self._watched.get(check.key) is not check:
                return
            if failure and now < check.deadline:
                check.failed = failure
                self._push(min(now + check.pause.next(), check.deadline), check)
                if now < check.since + WORTH_TELLING or failure == check.told:
                    return
                what, check.told = Verdict.NOT_YET, failure
            else:
                what = Verdict.NOT_READY if failure else Verdict.READY
                del self._watched[check.key]
        self._say(what, check.key, failure)

    # all that follows: with the lock held

    def _push(self, due: float, check: Check) -> None:
        heapq.heappush(self._due, (due, next(self._order), check))
        self._changed.notify()

    def _lead(self) -> None:
        """See to it that a thread waits for what is due next, as long as there may be one more."""
        if self._leading:
            return
        if self._spare:
            self._needed.notify()
        elif len(self._threads) < WORKERS:
            thread = threading.Thread(target=self._run, name="readiness", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _next(self) -> tuple[Check, bool] | None:
        """What is to be tried now, or (True) is late. None: the calling thread is not needed any more."""
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
        """As a spare thread; whether it is needed after all."""
        self._spare += 1
        needed = self._needed.wait(_SPARE_SECONDS)
        self._spare -= 1
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
        """Seconds until something is ripe."""
        times = [check.deadline for check in self._tried if self._watched.get(check.key) is check]
        first = min([*times, self._due[0][0] if self._due else math.inf])
        return None if first == math.inf else max(0.0, first - now)
