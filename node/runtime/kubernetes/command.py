"""A command in a container of a pod, without input, whose output is read like a file. Used by ``outputs``."""

from __future__ import annotations

import threading
from contextlib import suppress

from grass.errors import UndecodableError
from grass.kubernetes.api import ApiServer
from grass.kubernetes.objects import Status
from grass.wire.codec import Form
from node.runtime.kubernetes.channels import V4, V5, Channels
from node.runtime.kubernetes.execution import exit_code

_STDOUT, _STDERR, _ERROR = 1, 2, 3
_MOST_SAID = 2000
_STATUS: Form[Status] = Form(Status)


class PodCommand:
    """For one thread, except ``close``, which ends ``read``."""

    def __init__(self, api: ApiServer, pod_path: str, container: str, argv: list[str], seconds: float) -> None:
        """``seconds``: after which it is disconnected. Raises NotFoundError, ConflictError, NotAllowedError or
        UnreachableError."""
        words = [("command", word) for word in argv]
        query = [("container", container), *words, ("stdout", "true"), ("stderr", "true")]
        self._channels = Channels(api, f"{pod_path}/exec", query, [V5, V4])
        self._messages = self._channels.receive()
        self._rest = b""
        self._said = b""
        self._status: Status | None = None
        self._end = threading.Timer(seconds, self._channels.close)
        self._end.daemon = True
        self._end.start()

    @property
    def said(self) -> str:
        """What it printed to stderr, in one line."""
        return " ".join(self._said.decode(errors="replace").split())

    def read(self, size: int = -1, /) -> bytes:
        """Return at most ``size`` bytes of its output; nothing at its end."""
        while not self._rest:
            message = next(self._messages, None)
            if message is None:
                return b""
            self._take(*message)
        data = self._rest if size < 0 else self._rest[:size]
        self._rest = self._rest[len(data) :]
        return data

    def code(self) -> int | None:
        """Read to its end; return its exit code. None: the connection was lost before."""
        while self.read():
            pass
        return None if self._status is None else exit_code(self._status, self._said)

    def close(self) -> None:
        self._end.cancel()
        self._channels.close()

    def _take(self, channel: int, data: bytes) -> None:
        if channel == _STDOUT:
            self._rest = data
        elif channel == _STDERR:
            self._said = (self._said + data)[:_MOST_SAID]
        elif channel == _ERROR:
            with suppress(UndecodableError):
                self._status = _STATUS.decode(data)
