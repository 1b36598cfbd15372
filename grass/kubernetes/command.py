"""A command in a container of a pod, whose output is read like a file. Used by ``grass.provision.inside`` and
``node.runtime.kubernetes``."""

from __future__ import annotations

import re
import threading
from contextlib import suppress

from grass.errors import UndecodableError
from grass.kubernetes.api import ApiServer
from grass.kubernetes.channels import V4, V5, Channels
from grass.kubernetes.objects import STATUS, Status

_STDIN, _STDOUT, _STDERR, _ERROR = range(4)
LOST = 255
"""The exit code of a command whose end was not heard of."""
_MOST_SAID = 2000
_NOT_RUN = (126, 127, 128)
_ENGINE = re.compile(r"OCI runtime exec failed|failed to exec in container|unable to start container process")
_NOT_FOUND = re.compile(r"executable file not found|no such file or directory")


class PodCommand:
    """A command in a container of a pod. For one thread, except ``close``, which ends ``read``."""

    def __init__(
        self, api: ApiServer, pod_path: str, container: str, argv: list[str], seconds: float, *, given: bool = False
    ) -> None:
        """``seconds``: after which it is disconnected. ``given``: it gets what is written to it as input. Raises
        NotFoundError, ConflictError, NotAllowedError or UnreachableError."""
        words = [("command", word) for word in argv]
        query = [("container", container), *words, ("stdout", "true"), ("stderr", "true")]
        if given:
            query.append(("stdin", "true"))
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

    def write(self, data: bytes, /) -> int:
        """Give it input. Raises UnreachableError: the connection is lost, or it has ended."""
        self._channels.send(_STDIN, data)
        return len(data)

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
                self._status = STATUS.decode(data)


def exit_code(status: Status, said: bytes = b"") -> int:
    """Return the exit code that a shell would have. ``said``: the beginning of the command's output, where an engine
    says that there is no such program."""
    if status.status == "Success":
        return 0
    causes = status.details.causes if status.details else []
    code = next((int(each.message) for each in causes if each.reason == "ExitCode" and each.message.isdigit()), None)
    engine = status.message if code is None else said.decode(errors="replace")
    if code in (None, *_NOT_RUN) and _ENGINE.search(engine):
        if _NOT_FOUND.search(engine):
            return 127
        if "permission denied" in engine:
            return 126
    return LOST if code is None else code
