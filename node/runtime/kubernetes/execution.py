"""A command in the pod of an attempt. Used by the node-api-server, through ``kind``.

Its output comes in channels 1 and 2, and its end in channel 3, as a ``Status``: a connection that is cut says nothing
there, and is not the exit code 0. Before version 5 of the protocol, the end of the input cannot be sent.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import deque
from contextlib import closing, suppress
from signal import Signals

from grass.errors import GrassError, UndecodableError, UnreachableError
from grass.kubernetes.api import ApiServer
from grass.kubernetes.channels import CLOSE, V4, V5, Channels
from grass.kubernetes.command import LOST, PodCommand, exit_code
from grass.kubernetes.objects import POD, STATUS, Status
from grass.system.entropy import request_id
from node.runtime.kind import Output, Stream
from node.runtime.kubernetes.judge import TASK, Ended, judge
from node.runtime.kubernetes.processes import marked, signal_marked

_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE = range(5)
_KEYS = {signal.SIGINT: b"\x03", signal.SIGQUIT: b"\x1c", signal.SIGTSTP: b"\x1a"}
"""What a terminal sends for a signal."""
_NAMES: dict[int, Stream] = {_STDOUT: "stdout", _STDERR: "stderr"}
_END_OF_INPUT = b"\x04"
_MOST_WAITING = 1 << 20
"""Bytes of output that wait to be read; then the command waits."""
_SAID = 1000
_SIGNAL_SECONDS = 10.0
_LOOK_SECONDS = 5.0
"""Between two looks whether the task of a command has ended, and then until the command must have."""


class PodExecution:
    """An ``Execution`` in a pod. ``size``: rows and columns of a terminal; None: no terminal. ``shell``: whether the
    pod is known to have one. Without it, a command that does not notice that its connection is closed runs on."""

    def __init__(
        self, api: ApiServer, pod_path: str, argv: list[str], size: tuple[int, int] | None, *, shell: bool = False
    ) -> None:
        self._api, self._path = api, pod_path
        self._mark = request_id() if shell else None
        if self._mark is not None:
            argv = marked(argv, self._mark)
        self._tty = size is not None
        flags = [("stdin", "true"), ("stdout", "true"), ("tty", str(self._tty).lower())]
        if not self._tty:
            flags.append(("stderr", "true"))
        query = [("container", TASK), *(("command", word) for word in argv), *flags]
        self._channels = Channels(api, f"{pod_path}/exec", query, [V5, V4])
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._changed = threading.Condition()
        self._output: deque[tuple[Stream, bytes]] = deque()
        self._waiting = 0
        self._first = b""
        self._over = self._closed = False
        self._status: Status | None = None
        if size is not None:
            self.resize(*size)
        threading.Thread(target=self._receive, name="pod-exec", daemon=True).start()
        threading.Thread(target=self._end_with_task, name="pod-exec-end", daemon=True).start()

    @property
    def pid(self) -> None:
        return None

    def descriptors(self) -> list[int]:
        return [] if self._wake < 0 else [self._wake]

    def read(self, descriptor: int) -> Output | None:
        with self._changed:
            if self._closed:
                return None
            with suppress(BlockingIOError):
                os.eventfd_read(self._wake)
            found = list(self._output)
            self._output.clear()
            self._waiting = 0
            self._changed.notify_all()
            if self._over:
                os.eventfd_write(self._wake, 1)
                return found or None
            return found

    def write(self, data: bytes) -> int:
        try:
            self._channels.send(_STDIN, data)
        except UnreachableError:
            return len(data)  # the command has ended, and reads nothing more
        return len(data)

    def end_input(self) -> None:
        if self._tty:
            self.write(_END_OF_INPUT)
        elif self._channels.closes:
            with suppress(UnreachableError):
                self._channels.send(CLOSE, bytes([_STDIN]))

    def resize(self, rows: int, columns: int) -> None:
        with suppress(UnreachableError):
            self._channels.send(_RESIZE, json.dumps({"Width": columns, "Height": rows}).encode())

    def signal(self, number: int) -> None:
        """Send what a terminal sends for this signal, or the signal itself where there is a shell."""
        if self._tty and number in _KEYS:
            self.write(_KEYS[signal.Signals(number)])
        else:
            self._send(signal.Signals(number))

    def code(self) -> int:
        return LOST if self._status is None else exit_code(self._status, self._first)

    def end(self) -> None:
        """Disconnect, and kill the command, which Kubernetes would not."""
        self._channels.close()
        if self._status is None:
            self._send(signal.SIGKILL)
        with self._changed:
            self._over = self._closed = True
            if self._wake >= 0:
                os.close(self._wake)
                self._wake = -1
            self._changed.notify_all()

    def _send(self, number: Signals) -> None:
        """Signal the command, in a thread: the server may take a while."""
        if self._mark is not None:
            argv = signal_marked(self._mark, number.name.removeprefix("SIG"))
            threading.Thread(target=_run, args=(self._api, self._path, argv), name="exec-signal", daemon=True).start()

    def _receive(self) -> None:
        for channel, data in self._channels.receive():
            if channel == _ERROR:
                with suppress(UndecodableError):
                    self._status = STATUS.decode(data)
            elif channel in _NAMES and data:
                self._first = self._first or data[:_SAID]
                self._put(_NAMES[channel], data)
        with self._changed:
            if not self._closed:
                said = _last_words(self._status)
                if said:
                    self._output.append(("stderr" if not self._tty else "stdout", f"grass: {said}\r\n".encode()))
                self._over = True
                os.eventfd_write(self._wake, 1)

    def _end_with_task(self) -> None:
        """Disconnect once the task has ended: not every engine and proxy tells the end of a command in it."""
        while not self._channels.over.wait(_LOOK_SECONDS):
            if _has_ended(self._api, self._path):
                if not self._channels.over.wait(_LOOK_SECONDS):
                    self._channels.close()
                return

    def _put(self, name: Stream, data: bytes) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting < _MOST_WAITING or self._closed)
            if self._closed:
                return
            self._output.append((name, data))
            self._waiting += len(data)
            os.eventfd_write(self._wake, 1)


def _run(api: ApiServer, path: str, argv: list[str]) -> None:
    with suppress(GrassError), closing(PodCommand(api, path, TASK, argv, _SIGNAL_SECONDS)) as command:
        command.code()


def _has_ended(api: ApiServer, path: str) -> bool:
    try:
        with closing(api):
            found = api.find(path, POD)
        return found is None or isinstance(judge(found), Ended)
    except GrassError:
        return False


def _last_words(status: Status | None) -> str:
    """Return what a user must be told of an end: that it is unknown, or why nothing ran."""
    if status is None:
        return "the connection to the command is lost; how it ended is not known"
    known = status.status == "Success" or any(
        each.reason == "ExitCode" for each in (status.details.causes if status.details else ())
    )
    return "" if known else status.message
