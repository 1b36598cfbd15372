"""Programs that must not outlive the node-agent: the commands of readiness checks.

Each has its own process group, which is killed as a whole. Used by ``check`` and ``readiness``.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
from typing import Any

_WATCHER_PROGRAM = """
import os, sys
groups = set()
for line in sys.stdin:
    (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
for group in groups:
    try:
        os.killpg(group, 9)
    except OSError:
        pass
"""


class ChildPrograms:
    """Starts programs. When this process ends, even by KILL, a watcher process kills the programs that still run.

    The watcher runs from the first program until ``close``. It learns of each group through its standard input.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: set[int] = set()
        self._watcher: subprocess.Popen[bytes] | None = None
        self._closed = False

    def start(self, argv: list[str], **options: Any) -> ChildProgram:
        """Start a program. ``options``: those of Popen. Raises OSError and ValueError as Popen does."""
        process = subprocess.Popen(argv, start_new_session=True, **options)
        self._add(process.pid)
        return ChildProgram(process, self)

    def close(self) -> None:
        """End the watcher, which kills the programs that still run."""
        with self._lock:
            self._closed = True
            if self._watcher is not None:
                self._end(self._watcher)
                self._watcher = None

    def release(self, group: int) -> None:
        """Forget a group. Must be called before its leader is reaped: afterwards the number may belong to another
        group."""
        with self._lock:
            self._groups.discard(group)
            self._tell_watcher(b"-%d\n" % group)

    def _add(self, group: int) -> None:
        with self._lock:
            self._groups.add(group)
            self._tell_watcher(b"+%d\n" % group)

    def _tell_watcher(self, line: bytes) -> None:
        if self._watcher is not None:
            try:
                _write(self._watcher, line)
                return
            except OSError:  # it was killed
                self._end(self._watcher)
                self._watcher = None
        if self._groups and not self._closed:
            with contextlib.suppress(OSError):  # no process can be created now; tried again with the next program
                self._watcher = _start_watcher()
                _write(self._watcher, b"".join(b"+%d\n" % each for each in self._groups))

    @staticmethod
    def _end(watcher: subprocess.Popen[bytes]) -> None:
        assert watcher.stdin is not None
        watcher.stdin.close()
        threading.Thread(target=watcher.wait, name="child-programs", daemon=True).start()


class ChildProgram:
    """A running program. ``wait`` is called once, by one thread; ``kill`` by any thread."""

    def __init__(self, process: subprocess.Popen[bytes], programs: ChildPrograms) -> None:
        self._process = process
        self._programs = programs
        self._lock = threading.Lock()
        self._reaped = False

    def wait(self, seconds: float) -> int | None:
        """Return the exit code, negative for a signal. None: it did not end in time and was killed."""
        pid = self._process.pid
        in_time = False
        with contextlib.suppress(OSError):  # too many open files: its end cannot be waited for
            pidfd = os.pidfd_open(pid)
            try:
                poll = select.poll()
                poll.register(pidfd, select.POLLIN)
                in_time = bool(poll.poll(seconds * 1000))
            finally:
                os.close(pidfd)
        if not in_time:
            self.kill()
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        self.kill()  # the rest of its group
        with self._lock:
            self._programs.release(pid)
            self._reaped = True
            code = self._process.wait()
        return code if in_time else None

    def kill(self) -> None:
        """Kill the whole group, without waiting for its end."""
        with self._lock:
            if not self._reaped:
                with contextlib.suppress(OSError):
                    os.killpg(self._process.pid, signal.SIGKILL)


def _start_watcher() -> subprocess.Popen[bytes]:
    nothing = subprocess.DEVNULL
    argv = [sys.executable, "-I", "-S", "-c", _WATCHER_PROGRAM]
    return subprocess.Popen(
        argv, bufsize=0, stdin=subprocess.PIPE, stdout=nothing, stderr=nothing, cwd="/", start_new_session=True
    )


def _write(watcher: subprocess.Popen[bytes], line: bytes) -> None:
    assert watcher.stdin is not None
    watcher.stdin.write(line)
