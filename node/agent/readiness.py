"""Readiness checks of running attempts: a port answers, a command ends with 0, a line of the log matches.

Each is tried again and again, often at first, until it passes, the attempt ends, or its time is over. All of it happens
in threads of its own, which exist only while something is checked.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import os
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from grass import clock

FIRST_WAIT = 0.02
LONGEST_WAIT = 1.0
WORKERS = 4
PROBE_TIMEOUT = 10.0
"""Seconds that one run of a check command may take."""
WORTH_TELLING = 2.0
"""Seconds after which it is said why an attempt is not ready yet."""
_LINE = 1 << 16
"""A longer line is looked at in pieces."""


@dataclass
class Check:
    """One attempt's. ``since``: steady time of its start. ``ports`` by name, ``outputs``: its stdout and stderr."""

    key: str
    ready: dict[str, Any]
    since: float
    address: str
    ports: dict[str, int]
    outputs: list[str]
    argv: list[str]
    env: dict[str, str]
    cwd: str
    inside: Callable[[], bool] | None = None
    """Runs the command where ``argv`` cannot: in the attempt's container."""
    wait: float = FIRST_WAIT
    read: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    """Of each output file: how far it was read, and the line that is not complete."""
    told: str = ""
    """What was said of it last."""

    def failure(self) -> str:
        """Why it does not pass, for people; empty when it does."""
        if self.ready["port"] is not None:
            port = self.ports[self.ready["port"]]
            return "" if _answers(self.address, port) else f"nothing listens on its port {self.ready['port']} ({port})"
        if self.ready["command"] is not None:
            if self.inside:
                return "" if self.inside() else "its check does not succeed in its container"
            return _failure(self.argv, self.env, self.cwd)
        matches = self._log_matches(re.compile(self.ready["log"].encode()))
        return "" if matches else "no line of its output matches its check"

    def late(self, now: float) -> bool:
        timeout = self.ready["timeout"]
        return timeout is not None and now >= self.since + timeout

    def _log_matches(self, pattern: re.Pattern[bytes]) -> bool:
        return any(self._file_matches(path, pattern) for path in self.outputs)

    def _file_matches(self, path: str, pattern: re.Pattern[bytes]) -> bool:
        offset, rest = self.read.get(path, (0, b""))
        try:
            with open(path, "rb") as file:  # noqa: PTH123
                file.seek(offset)
                while data := file.read(1 << 20):
                    offset += len(data)
                    *lines, rest = (rest + data).split(b"\n")
                    if any(pattern.search(line) for line in [*lines, rest]):
                        return True
                    rest = rest[-_LINE:]
        except FileNotFoundError:
            return False
        self.read[path] = (offset, rest)
        return False


class Readiness:
    """``say(what, key, failure)`` is called in a thread: ``ready`` or ``not-ready`` (in time) once for each watched
    attempt, before that ``not-yet`` when it was long enough, and when the failure is another. A dropped one is silent.
    """

    def __init__(self, say: Callable[[str, str, str], None]) -> None:
        self._say = say
        self._changed = threading.Condition()
        self._watched: dict[str, Check] = {}
        self._due: list[tuple[float, int, Check]] = []
        self._order = itertools.count()
        self._threads: list[threading.Thread] = []
        self._stopping = False

    def watch(self, check: Check) -> None:
        with self._changed:
            if check.key in self._watched or self._stopping:
                return
            self._watched[check.key] = check
            heapq.heappush(self._due, (clock.steady(), next(self._order), check))
            if len(self._threads) < min(WORKERS, len(self._watched)):
                thread = threading.Thread(target=self._run, name="readiness", daemon=True)
                self._threads.append(thread)
                thread.start()
            self._changed.notify()

    def drop(self, key: str) -> None:
        with self._changed:
            self._watched.pop(key, None)

    def stop(self) -> None:
        """Does not wait for checks that are under way."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            check = self._next()
            if check is None:
                return
            failure = check.failure()
            now = clock.steady()
            with self._changed:
                if self._watched.get(check.key) is not check:
                    continue
                if failure and not check.late(now):
                    check.wait = min(check.wait * 1.5, LONGEST_WAIT)
                    heapq.heappush(self._due, (now + check.wait, next(self._order), check))
                    self._changed.notify()
                    if now < check.since + WORTH_TELLING or failure == check.told:
                        continue
                    what, check.told = "not-yet", failure
                else:
                    what = "not-ready" if failure else "ready"
                    del self._watched[check.key]
            self._say(what, check.key, failure)

    def _next(self) -> Check | None:
        with self._changed:
            while not self._stopping:
                while self._due and self._watched.get(self._due[0][2].key) is not self._due[0][2]:
                    heapq.heappop(self._due)
                if not self._due:
                    self._threads.remove(threading.current_thread())
                    return None
                wait = self._due[0][0] - clock.steady()
                if wait <= 0:
                    return heapq.heappop(self._due)[2]
                self._changed.wait(wait)
        return None


def _answers(address: str, port: int) -> bool:
    for host in dict.fromkeys((address, "127.0.0.1")):
        with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=1.0):
            return True
    return False


def _failure(argv: list[str], env: dict[str, str], cwd: str) -> str:
    nothing = subprocess.DEVNULL
    try:
        process = subprocess.Popen(
            argv, env=env, cwd=cwd, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True
        )
    except (OSError, ValueError) as error:
        return f"its check cannot run {argv[0]}: {getattr(error, 'strerror', None) or error}"
    try:
        code = process.wait(PROBE_TIMEOUT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # not reaped yet, so the group is still its own
        process.wait()
        return f"its check did not end within {PROBE_TIMEOUT:g} s"
    ended = f"with exit code {code}" if code > 0 else f"by signal {-code}"
    return f"its check ended {ended}" if code else ""
