"""Commands beside a process, started either here or, where users are isolated, by the shepherd.

Used by ``execution`` and ``kind``.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from grass.errors import CommandNotExecutableError, CommandNotFoundError, UnreachableError
from node.runtime import proc
from node.runtime.frames import READ, Lines
from node.runtime.keyrings import leave_session_keyring
from node.runtime.shepherd_messages import (
    EndedBeside,
    Failed,
    KillBeside,
    RunBeside,
    RunsBeside,
    SignalBeside,
    pack,
    unpack_reply,
)
from node.runtime.spawn import NOT_FOUND

_START_SECONDS = 10.0
_LOST = 255
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


class Running(Protocol):
    """A command in a session of its own."""

    pid: int

    def fileno(self) -> int:
        """Return a descriptor that is readable once the command has ended."""
        ...

    def has_ended(self) -> bool: ...

    def code(self) -> int:
        """Wait for the end; return the exit code, negative for a signal."""
        ...

    def signal(self, number: int) -> None:
        """Send a signal to the command with its process group."""
        ...

    def kill(self) -> None:
        """Kill the command's session: a launcher's daemon gives each of its programs a process group of its own."""
        ...

    def close(self) -> None:
        """Release everything. The command has ended, or was killed."""
        ...


class Child:
    """A child of this process. Raises OSError if the command cannot be started."""

    def __init__(self, pid: int, argv: list[str], extra: Mapping[str, str], streams: Sequence[int], tty: bool) -> None:
        env = dict(entry.split("=", 1) for entry in proc.environ(pid) if "=" in entry)
        env["PWD"] = os.readlink(f"/proc/{pid}/cwd")  # noqa: PTH115 (pathlib knows no such links)
        stdin, stdout, stderr = streams
        leave_session_keyring()
        self._process = subprocess.Popen(
            [sys.executable, "-ISc", _TAKE_TERMINAL, *argv] if tty else argv,
            env={**extra, **env},
            cwd=f"/proc/{pid}/cwd",
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
        self.pid = self._process.pid
        self._pidfd = os.pidfd_open(self.pid)

    def fileno(self) -> int:
        return self._pidfd

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def code(self) -> int:
        return self._process.wait()

    def signal(self, number: int) -> None:
        if not self.has_ended():
            proc.signal_group(self.pid, number)

    def kill(self) -> None:
        if self.has_ended():
            return
        proc.kill_session(self.pid)
        self._process.wait()

    def close(self) -> None:
        os.close(self._pidfd)


class OfShepherd:
    """A child of the shepherd, beside an isolated attempt (``node.runtime.isolation.service``).

    Raises CommandNotFoundError, CommandNotExecutableError, UnreachableError.
    """

    def __init__(
        self, path: Path, key: str, argv: list[str], extra: Mapping[str, str], streams: Sequence[int], tty: bool
    ) -> None:
        self._lines = Lines()
        self.pid = 0
        self._status: int | None = None
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._connection.settimeout(_START_SECONDS)
            self._connection.connect(str(path))
            request = memoryview(pack(RunBeside(key, argv, dict(extra), tty)))
            sent = socket.send_fds(self._connection, [request], list(streams))
            self._connection.sendall(request[sent:])
            self._started(argv[0])
        except OSError as error:
            self._connection.close()
            raise UnreachableError(f"the shepherd does not answer at {path}: {error}") from error
        except Exception:
            self._connection.close()
            raise

    def _started(self, name: str) -> None:
        while not self.pid:
            data = self._connection.recv(READ)
            if not data:
                raise UnreachableError(f"cannot start {name}: the shepherd closed the connection")
            self._take(data)
        self._connection.settimeout(None)
        if self._status is not None:  # so that its descriptor is readable
            self._connection.shutdown(socket.SHUT_RD)

    def _take(self, data: bytes) -> None:
        for message in self._lines.feed(data):
            match unpack_reply(message):
                case Failed(code, text):
                    raise (CommandNotFoundError if code == NOT_FOUND else CommandNotExecutableError)(text)
                case RunsBeside(pid):
                    self.pid = pid
                case EndedBeside(status):
                    self._status = status

    def fileno(self) -> int:
        return self._connection.fileno()

    def has_ended(self) -> bool:
        if self._status is None:
            with suppress(BlockingIOError):
                self._receive(socket.MSG_DONTWAIT)
        return self._status is not None

    def code(self) -> int:
        while self._status is None:
            self._receive(0)
        code, number = proc.split_status(self._status) if self._status >= 0 else (_LOST, None)
        return -number if number is not None else code or 0

    def _receive(self, flags: int) -> None:
        try:
            data = self._connection.recv(READ, flags)
        except BlockingIOError:
            raise
        except OSError:
            data = b""
        if data:
            self._take(data)
        elif self._status is None:
            self._status = -1  # the shepherd was killed; the command ends with its attempt

    def signal(self, number: int) -> None:
        if not self.has_ended():
            with suppress(OSError):
                self._connection.sendall(pack(SignalBeside(number)))

    def kill(self) -> None:
        if not self.has_ended():
            with suppress(OSError):
                self._connection.sendall(pack(KillBeside()))

    def close(self) -> None:
        self._connection.close()
