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

    def passes(self) -> bool:
        if self.ready["port"] is not None:
            return _answers(self.address, self.ports[self.ready["port"]])
        if self.ready["command"] is not None:
            return self.inside() if self.inside else _succeeds(self.argv, self.env, self.cwd)
        return self._log_matches(re.compile(self.ready["log"].encode()))

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
    """``on_result(key, passed)`` is called, in a thread, once for each watched attempt unless it is dropped before."""

    def __init__(self, on_result: Callable[[str, bool], None]) -> None:
        self._on_result = on_result
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
            passed = check.passes()
            with self._changed:
                if self._watched.get(check.key) is not check:
                    continue
                if not passed and not check.late(clock.steady()):
                    check.wait = min(check.wait * 1.5, LONGEST_WAIT)
                    heapq.heappush(self._due, (clock.steady() + check.wait, next(self._order), check))
                    self._changed.notify()
                    continue
                del self._watched[check.key]
            self._on_result(check.key, passed)

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


def _succeeds(argv: list[str], env: dict[str, str], cwd: str) -> bool:
    nothing = subprocess.DEVNULL
    try:
        process = subprocess.Popen(
            argv, env=env, cwd=cwd, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True
        )
    except (OSError, ValueError):
        return False
    try:
        return process.wait(PROBE_TIMEOUT) == 0
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # not reaped yet, so the group is still its own
        process.wait()
        return False
