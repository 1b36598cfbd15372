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
from contextlib import suppress

from grass.errors import UndecodableError, UnreachableError
from grass.kubernetes.api import ApiServer
from grass.kubernetes.objects import Status
from grass.wire.codec import Form
from node.runtime.kind import Output, Stream
from node.runtime.kubernetes.channels import CLOSE, V4, V5, Channels
from node.runtime.kubernetes.judge import TASK

_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE = range(5)
_KEYS = {signal.SIGINT: b"\x03", signal.SIGQUIT: b"\x1c", signal.SIGTSTP: b"\x1a"}
"""What a terminal sends for a signal."""
_NAMES: dict[int, Stream] = {_STDOUT: "stdout", _STDERR: "stderr"}
_END_OF_INPUT = b"\x04"
_MOST_WAITING = 1 << 20
"""Bytes of output that wait to be read; then the command waits."""
LOST = 255
"""The exit code of a command whose end was not heard of."""
_STATUS: Form[Status] = Form(Status)


class PodExecution:
    """An ``Execution`` in a pod. ``size``: rows and columns of a terminal; None: no terminal."""

    def __init__(self, api: ApiServer, pod_path: str, argv: list[str], size: tuple[int, int] | None) -> None:
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
        self._over = False
        self._status: Status | None = None
        if size is not None:
            self.resize(*size)
        threading.Thread(target=self._receive, name="pod-exec", daemon=True).start()

    @property
    def pid(self) -> None:
        return None

    def descriptors(self) -> list[int]:
        return [self._wake]

    def read(self, descriptor: int) -> Output | None:
        with self._changed:
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
        """Send what a terminal sends for this signal. Without a terminal, nothing reaches the command."""
        if self._tty and number in _KEYS:
            self.write(_KEYS[signal.Signals(number)])

    def code(self) -> int:
        status = self._status
        if status is None:
            return LOST
        if status.status == "Success":
            return 0
        causes = status.details.causes if status.details else []
        for cause in causes:
            if cause.reason == "ExitCode" and cause.message.isdigit():
                return int(cause.message)
        return LOST

    def end(self) -> None:
        self._channels.close()
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def _receive(self) -> None:
        for channel, data in self._channels.receive():
            if channel == _ERROR:
                with suppress(UndecodableError):
                    self._status = _STATUS.decode(data)
            elif channel in _NAMES and data:
                self._put(_NAMES[channel], data)
        with self._changed:
            if self._status is None and not self._over:
                said = b"grass: the connection to the command is lost; how it ended is not known\r\n"
                self._output.append(("stderr" if not self._tty else "stdout", said))
            self._over = True
            os.eventfd_write(self._wake, 1)

    def _put(self, name: Stream, data: bytes) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting < _MOST_WAITING or self._over)
            self._output.append((name, data))
            self._waiting += len(data)
            os.eventfd_write(self._wake, 1)
