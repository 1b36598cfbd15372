"""A command beside a task's process: in its working folder, with its environment. Used by the node-api-server."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
import subprocess
import sys
import termios
from contextlib import suppress

from grass.errors import CommandNotExecutableError, CommandNotFoundError, ConflictError
from node.runtime import proc
from node.runtime.kind import Output

READ = 1 << 16
_WRITE_SECONDS = 2.0
_TAKE_TERMINAL = """import fcntl, os, signal, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
for key in (signal.SIGINT, signal.SIGQUIT):
    signal.signal(key, signal.SIG_DFL)
try:
    os.execvp(sys.argv[1], sys.argv[1:])
except OSError as error:
    print(f"cannot start {sys.argv[1]}: {error.strerror}", file=sys.stderr)
    os._exit(127 if isinstance(error, FileNotFoundError) else 126)
"""
"""Make the terminal the controlling one of the command's session, which only the session's leader can do. It also
restores SIGINT and SIGQUIT: a shell that starts this server in the background makes it ignore them."""


class ProcessExecution:
    """Starts the command beside the process ``pid``, in a session of its own."""

    def __init__(self, pid: int, argv: list[str], size: tuple[int, int] | None) -> None:
        environ = proc.read(f"/proc/{pid}/environ").split(b"\0")
        env = dict(entry.split(b"=", 1) for entry in environ if b"=" in entry)
        try:
            self._task = os.pidfd_open(pid)
        except ProcessLookupError as error:
            raise ConflictError(f"cannot start {argv[0]}: the task has just ended") from error
        self._terminal: int | None = None
        try:
            if size is None:
                self._pipes(argv, env, f"/proc/{pid}/cwd")
            else:
                self._open_terminal(argv, {**env, b"TERM": env.get(b"TERM", b"xterm-256color")}, pid, size)
        except OSError as error:
            os.close(self._task)
            cause = CommandNotFoundError if isinstance(error, FileNotFoundError) else CommandNotExecutableError
            raise cause(f"cannot start {argv[0]}: {error.strerror}") from error
        self._pidfd = os.pidfd_open(self._process.pid)
        self._task_ended = False

    def _pipes(self, argv: list[str], env: dict[bytes, bytes], cwd: str) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            argv, env=env, cwd=cwd, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True, bufsize=0
        )
        assert self._process.stdout and self._process.stderr and self._process.stdin
        self._outputs = {self._process.stdout.fileno(): "stdout", self._process.stderr.fileno(): "stderr"}
        self._input: int | None = self._process.stdin.fileno()
        for descriptor in (*self._outputs, self._input):
            os.set_blocking(descriptor, False)

    def _open_terminal(self, argv: list[str], env: dict[bytes, bytes], pid: int, size: tuple[int, int]) -> None:
        self._terminal, end = os.openpty()
        try:
            self.resize(*size)
            self._process = subprocess.Popen(
                [sys.executable, "-ISc", _TAKE_TERMINAL, *argv],
                env=env,
                cwd=f"/proc/{pid}/cwd",
                stdin=end,
                stdout=end,
                stderr=end,
                start_new_session=True,
            )
        except OSError:
            os.close(self._terminal)
            raise
        finally:
            os.close(end)
        self._outputs, self._input = {self._terminal: "stdout"}, self._terminal
        os.set_blocking(self._terminal, False)

    def descriptors(self) -> list[int]:
        return [*self._outputs, self._pidfd, *([] if self._task_ended else [self._task])]

    def read(self, descriptor: int) -> Output | None:
        """Return output. The session ends with the command; processes that it left may hold its streams open for
        ever."""
        if descriptor == self._task:
            self._task_ended = True
            self._kill()
            return []
        if descriptor == self._pidfd:
            output = [piece for each in list(self._outputs) for piece in self._drain(each)]
            self._outputs.clear()
            return output or None
        data = self._read(descriptor)
        if data is None:
            del self._outputs[descriptor]
            return []
        return [(self._outputs[descriptor], data)] if data else []

    def _drain(self, descriptor: int) -> Output:
        pieces = []
        while data := self._read(descriptor):
            pieces.append((self._outputs[descriptor], data))
        return pieces

    def _read(self, descriptor: int) -> bytes | None:
        try:
            return os.read(descriptor, READ) or None
        except BlockingIOError:
            return b""
        except OSError:  # a terminal whose last user is gone
            return None

    def write(self, data: bytes) -> int:
        if self._input is None or not select.select([], [self._input], [], _WRITE_SECONDS)[1]:
            return 0
        try:
            return os.write(self._input, data)
        except BlockingIOError:
            return 0
        except OSError:
            return len(data)  # nobody reads it any more

    def end_input(self) -> None:
        if self._terminal is not None:
            self.write(b"\x04")
        elif self._process.stdin is not None:
            self._input = None
            self._process.stdin.close()

    def resize(self, rows: int, columns: int) -> None:
        if self._terminal is not None:
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def signal(self, number: int) -> None:
        if self._process.poll() is None:
            proc.signal_group(self._process.pid, number)

    def code(self) -> int:
        code = self._process.wait()
        return 128 - code if code < 0 else code

    def end(self) -> None:
        if self._process.poll() is None:
            self._kill()
            self._process.wait()
        for descriptor in (self._pidfd, self._task):
            os.close(descriptor)
        if self._terminal is not None:
            os.close(self._terminal)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def _kill(self) -> None:
        """Kill the command's session: a launcher's daemon gives each of its programs a process group of its own."""
        leader = self._process.pid
        session = [pid for pid in proc.processes() if (stat := proc.stat(pid)) and stat.session == leader]
        for pid in session:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
