"""One try of a readiness check: a port answers, a command ends with 0, a line of the log matches."""

from __future__ import annotations

import contextlib
import math
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from node.agent import matching
from node.agent.leash import Leash, Running

FIRST_WAIT = 0.02
PROBE_TIMEOUT = 10.0
"""Seconds that one try may take."""
NO_MATCH = "no line of its output matches its check"


@dataclass(eq=False)
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
    deadline: float = math.inf
    """Steady time at which it must have passed."""
    failed: str = ""
    """Why the last try did not pass."""
    told: str = ""
    """What was said of it last."""
    _read: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Of each output file: where its last line begins, as far as it was looked at, and where that ended."""
    _passed_over: int = 0
    _running: Running | None = None
    _cancelled: bool = False

    def allow(self, now: float) -> None:
        """Set the deadline. A check that begins late, because this agent did, gets the time for at least one try."""
        timeout: float | None = self.ready["timeout"]
        if timeout is not None:
            self.deadline = max(self.since + timeout, now + min(timeout, PROBE_TIMEOUT))

    def failure(self, leash: Leash) -> str:
        """Try it. Why it does not pass, for people; empty when it does."""
        if self.ready["port"] is not None:
            port = self.ports[self.ready["port"]]
            return "" if _answers(self.address, port) else f"nothing listens on its port {self.ready['port']} ({port})"
        if self.ready["command"] is not None:
            if self.inside:
                return "" if self.inside() else "its check does not succeed in its container"
            return self._command_failure(leash)
        return self._log_failure(leash)

    def cancel(self) -> None:
        """End what is under way. It is not tried again."""
        self._cancelled = True
        running = self._running
        if running is not None:
            running.kill()

    def _wait(self, running: Running) -> int | None:
        self._running = running
        if self._cancelled:  # which is set before the other thread looks for what runs
            running.kill()
        return running.wait(PROBE_TIMEOUT)

    def _command_failure(self, leash: Leash) -> str:
        nothing = subprocess.DEVNULL
        try:
            running = leash.start(self.argv, env=self.env, cwd=self.cwd, stdin=nothing, stdout=nothing, stderr=nothing)
        except (OSError, ValueError) as error:
            return f"its check cannot run {self.argv[0]}: {getattr(error, 'strerror', None) or error}"
        code = self._wait(running)
        if code is None:
            return f"its check did not end within {PROBE_TIMEOUT:g} s"
        ended = f"with exit code {code}" if code > 0 else f"by signal {-code}"
        return f"its check ended {ended}" if code else ""

    def _log_failure(self, leash: Leash) -> str:
        for path in self.outputs:
            try:
                failure = self._file_failure(leash, path)
            except FileNotFoundError:
                continue
            except OSError as error:
                return f"its output cannot be read: {error.strerror}"
            if failure != NO_MATCH:
                return failure
        if not self._passed_over:
            return NO_MATCH
        lines = "a line" if self._passed_over == 1 else f"{self._passed_over} lines"
        return f"{NO_MATCH}, and {lines} took too long to compare with it"

    def _file_failure(self, leash: Leash, path: str) -> str:
        begin, end = self._read.get(path, (0, 0))
        size = os.stat(path).st_size  # noqa: PTH116
        if size <= end:
            return NO_MATCH
        expression = self.ready["log"]
        pattern, text = matching.simple(expression), matching.needed(expression)
        if pattern is not None or text:
            search = pattern.search if pattern is not None else (lambda line: text in line)
            found, begins, end = matching.look(search, path, begin)
            if not found:
                self._read[path] = (begins, end)
                return NO_MATCH
        return "" if pattern is not None else self._look_apart(leash, path, begin, size)

    def _look_apart(self, leash: Leash, path: str, begin: int, size: int) -> str:
        """In another process, which takes 15 ms: a thread that matches for ever stops all the others."""
        expression = os.memfd_create("expression")
        try:
            os.write(expression, self.ready["log"].encode(errors="surrogatepass"))
            os.lseek(expression, 0, os.SEEK_SET)
            running = leash.start(
                [sys.executable, "-I", "-S", matching.__file__, path, str(begin)],
                stdin=expression,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd="/",
            )
        except OSError as error:
            return f"its output cannot be looked at: {error.strerror}"
        finally:
            os.close(expression)
        code = self._wait(running)
        said = running.output().split()
        if code == 0 and len(said) == 4:
            matches, begins, end, passed_over = map(int, said)
            self._read[path] = (begins, end)
            self._passed_over += passed_over
            return "" if matches else NO_MATCH
        self._read[path] = (size, size)  # what takes too long now does so later
        if code is None:
            self._passed_over += 1
            return NO_MATCH
        return "its output cannot be compared with its check"


def _answers(address: str, port: int) -> bool:
    for host in dict.fromkeys((address, "127.0.0.1")):
        with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=1.0):
            return True
    return False
