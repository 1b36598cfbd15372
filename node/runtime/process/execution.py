"""A command beside a task's process: in its working folder, with its environment. Used by the node-api-server."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import termios
from collections.abc import Callable, Mapping, Sequence

from grass.errors import CommandNotExecutableError, CommandNotFoundError, ConflictError
from node.runtime.kind import Output, Stream
from node.runtime.process.beside import Running

READ = 1 << 16
_WRITE_SECONDS = 2.0
_TERMINAL = {"TERM": "xterm-256color"}

StartBeside = Callable[[list[str], Mapping[str, str], Sequence[int], bool], Running]
"""Starts a command: argv, variables that the process may lack, stdin with stdout and stderr, whether they are a
terminal."""


class ProcessExecution:
    """Starts the command beside the process ``pid``, in a session of its own."""

    def __init__(self, pid: int, argv: list[str], size: tuple[int, int] | None, start: StartBeside) -> None:
        try:
            self._task = os.pidfd_open(pid)
        except ProcessLookupError as error:
            raise ConflictError(f"cannot start {argv[0]}: the task has just ended") from error
        self._terminal: int | None = None
        self._outputs: dict[int, Stream] = {}
        self._input: int | None = None
        self._own: list[int] = []
        """Descriptors to close at the end."""
        try:
            streams = self._pipes() if size is None else self._open_terminal(size)
            try:
                self._command = start(argv, {} if size is None else _TERMINAL, streams, size is not None)
            finally:
                for descriptor in set(streams):
                    os.close(descriptor)
        except OSError as error:
            self._release()
            cause = CommandNotFoundError if isinstance(error, FileNotFoundError) else CommandNotExecutableError
            raise cause(f"cannot start {argv[0]}: {error.strerror}") from error
        except Exception:
            self._release()
            raise
        self._task_ended = False

    def _pipes(self) -> list[int]:
        stdin, self._input = os.pipe2(os.O_CLOEXEC)
        (out, stdout), (err, stderr) = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
        self._outputs = {out: "stdout", err: "stderr"}
        self._own = [self._input, out, err]
        for descriptor in self._own:
            os.set_blocking(descriptor, False)
        return [stdin, stdout, stderr]

    def _open_terminal(self, size: tuple[int, int]) -> list[int]:
        self._terminal, end = os.openpty()
        self._own = [self._terminal]
        self.resize(*size)
        self._outputs, self._input = {self._terminal: "stdout"}, self._terminal
        os.set_blocking(self._terminal, False)
        return [end, end, end]

    @property
    def pid(self) -> int:
        return self._command.pid

    def descriptors(self) -> list[int]:
        return [*self._outputs, self._command.fileno(), *([] if self._task_ended else [self._task])]

    def read(self, descriptor: int) -> Output | None:
        """Return output. The session ends with the command; processes that it left may hold its streams open for
        ever."""
        if descriptor == self._task:
            self._task_ended = True
            self._command.kill()
            return []
        if descriptor == self._command.fileno():
            if not self._command.has_ended():
                return []
            output = [piece for each in list(self._outputs) for piece in self._drain(each)]
            self._outputs.clear()
            return output or None
        data = self._read(descriptor)
        if data is None:
            del self._outputs[descriptor]
            return []
        return [(self._outputs[descriptor], data)] if data else []

    def _drain(self, descriptor: int) -> Output:
        pieces: Output = []
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
        elif self._input is not None:
            self._own.remove(self._input)
            os.close(self._input)
            self._input = None

    def resize(self, rows: int, columns: int) -> None:
        if self._terminal is not None:
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def signal(self, number: int) -> None:
        self._command.signal(number)

    def code(self) -> int:
        code = self._command.code()
        return 128 - code if code < 0 else code

    def end(self) -> None:
        self._command.kill()
        self._command.close()
        self._release()

    def _release(self) -> None:
        for descriptor in (self._task, *self._own):
            os.close(descriptor)
        self._own.clear()
