"""Replies of the engine that go on: what a container prints, and what happens to containers.

They are read in the node-agent's own loop, without a thread each. The request is HTTP/1.0: the reply is then neither
cut into chunks nor followed by another one, and its end is the end of the connection.
"""

from __future__ import annotations

import json
import os
import select
import socket
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from urllib.parse import urlencode

READ = 1 << 18
_HEADER = 8
_LONGEST_HEAD = 1 << 16
_LONGEST_STAMP = 40
_ANSWER_SECONDS = 30
_NAMES = {1: "stdout", 2: "stderr"}


class EngineStream:
    """GET ``target`` with ``query``. Raises OSError where the engine is not there."""

    def __init__(self, path: str, target: str, **query: str) -> None:
        self._head = b""
        self.status: int | None = None
        """Of HTTP, once it has come."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect(path)
            self._socket.sendall(f"GET {target}?{urlencode(query)} HTTP/1.0\r\nHost: engine\r\n\r\n".encode())
            self._socket.setblocking(False)
        except OSError:
            self._socket.close()
            raise

    def fileno(self) -> int:
        return self._socket.fileno()

    def read(self) -> bytes | None:
        """What has come of the body; empty: nothing now; None: it is over."""
        try:
            data = self._socket.recv(READ)
        except BlockingIOError:
            return b""
        except OSError:
            return None
        if not data:
            return None
        return data if self.status is not None else self._after_head(data)

    def close(self) -> None:
        self._socket.close()

    def _after_head(self, data: bytes) -> bytes | None:
        self._head += data
        head, found, body = self._head.partition(b"\r\n\r\n")
        if not found:
            return b"" if len(self._head) < _LONGEST_HEAD else None
        self.status = int(head.split(None, 2)[1])
        self._head = b""
        return body


class EngineTerminal:
    """The input and output of a command that the engine was asked to prepare. Raises OSError."""

    def __init__(self, path: str, execution: str, *, tty: bool) -> None:
        body = json.dumps({"Detach": False, "Tty": tty}).encode()
        head = f"POST /exec/{execution}/start HTTP/1.1\r\nHost: engine\r\nContent-Type: application/json\r\n"
        head += f"Connection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: {len(body)}\r\n\r\n"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.settimeout(_ANSWER_SECONDS)
            self._socket.connect(path)
            self._socket.sendall(head.encode() + body)
            self._early = self._answer()
            self._socket.setblocking(False)
        except OSError:
            self._socket.close()
            raise
        self._wakeup = os.eventfd(1 if self._early else 0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poll = select.epoll()
        for descriptor in (self._socket.fileno(), self._wakeup):
            self._poll.register(descriptor, select.EPOLLIN)

    def _answer(self) -> bytes:
        """What came of the output with the reply's head."""
        answer = b""
        while b"\r\n\r\n" not in answer:
            data = self._socket.recv(READ)
            if not data or len(answer) > _LONGEST_HEAD:
                raise OSError("the container engine closed the connection")
            answer += data
        head, _, early = answer.partition(b"\r\n\r\n")
        if head.split(None, 2)[1] not in (b"101", b"200"):
            raise OSError(f"the container engine refused it: {early.decode(errors='replace').strip()}")
        return early

    def fileno(self) -> int:
        return self._poll.fileno()

    def read(self) -> bytes | None:
        """Empty: nothing now; None: it is over."""
        if self._early:
            os.eventfd_read(self._wakeup)
            data, self._early = self._early, b""
            return data
        try:
            return self._socket.recv(READ) or None
        except BlockingIOError:
            return b""
        except OSError:
            return None

    def write(self, data: bytes, seconds: float) -> int:
        """How much was taken within so many seconds."""
        if not select.select([], [self._socket], [], seconds)[1]:
            return 0
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0
        except OSError:
            return len(data)  # nobody reads it any more

    def end_input(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._poll.close()
        os.close(self._wakeup)
        self._socket.close()


class Demultiplexer:
    """Cuts the engine's frames (stream, 3 × 0, length of 4 bytes, payload) out of what has come. Pure."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[tuple[str, memoryview]]:
        """(stream, payload) of each frame that is complete, in order."""
        data = self._rest + data if self._rest else data
        view = memoryview(data)
        at = 0
        while at + _HEADER <= len(data):
            end = at + _HEADER + int.from_bytes(view[at + 4 : at + _HEADER], "big")
            if end > len(data):
                break
            yield _NAMES.get(data[at], "stderr"), view[at + _HEADER : end]
            at = end
        self._rest = data[at:]


class Log:
    """What a container prints, from its beginning, on its way into the attempt's files.

    ``paths``: of ``stdout`` and ``stderr``. As many bytes as a file holds already are left out at its beginning, so
    that whoever begins anew repeats nothing and misses nothing. Raises OSError: no engine, or no place on the disk.

    The engine stamps each entry, and the pieces of a long line alike. By that ``reopen`` goes on where the stream
    ended, which it has to once more after the container has ended: an engine that hears of the end while it waits for
    more leaves out what was printed last.
    """

    def __init__(self, engine: str, container: str, paths: dict[str, str]) -> None:
        self._engine = engine
        self._target = f"/containers/{container}/logs"
        self._files: dict[str, int] = {}
        self._skip: dict[str, int] = {}
        self._last: dict[str, tuple[bytes, int]] = {}
        """Of each stream: the newest stamp, and how many entries have come with it."""
        self._known: dict[str, tuple[bytes, int]] = {}
        """As many entries as these are come again at the beginning of this stream."""
        self._stream: EngineStream | None = None
        try:
            for name, path in paths.items():
                self._files[name] = file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
                self._skip[name] = os.fstat(file).st_size
            self.reopen(follow=True)
        except OSError:
            self.close()
            raise

    def reopen(self, *, follow: bool) -> None:
        """``follow`` False: what there is now, and then it is over."""
        self.pause()
        self._frames = Demultiplexer()
        self._known = dict(self._last)
        stamps = [stamp for stamp, _ in self._last.values()]
        since = min(map(_seconds, stamps)) if len(stamps) == len(self._files) else "0"
        query = {"follow": str(int(follow)), "stdout": "1", "stderr": "1", "timestamps": "1", "since": since}
        self._stream = EngineStream(self._engine, self._target, **query)

    @property
    def is_open(self) -> bool:
        return self._stream is not None

    def fileno(self) -> int:
        assert self._stream is not None
        return self._stream.fileno()

    def pump(self) -> bool:
        """Write what has come; False when the stream is over. Raises OSError when the disk takes no more."""
        assert self._stream is not None
        data = self._stream.read()
        if data is None:
            return False
        if self._stream.status != 200:
            return not data and self._stream.status is None
        parts: dict[str, list[memoryview]] = {}
        for name, payload in self._frames.feed(data):
            if (part := self._new(name, payload)) is not None:
                parts.setdefault(name, []).append(part)
        for name, pieces in parts.items():
            self._write(name, b"".join(pieces))
        return True

    def pause(self) -> None:
        """Let go of the stream; ``reopen`` goes on."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def close(self) -> None:
        self.pause()
        while self._files:
            os.close(self._files.popitem()[1])

    def _new(self, name: str, payload: memoryview) -> memoryview | None:
        """The text of an entry; None: it came before."""
        length = bytes(payload[:_LONGEST_STAMP]).index(b" ")
        stamp = bytes(payload[:length])
        known, count = self._known.get(name, (b"", 0))
        if known:
            if stamp == known and count:
                self._known[name] = (known, count - 1)
                return None
            if stamp != known and _seconds(stamp) < _seconds(known):
                return None
            del self._known[name]
        newest, count = self._last.get(name, (b"", 0))
        self._last[name] = (stamp, count + 1 if stamp == newest else 1)
        return payload[length + 1 :]

    def _write(self, name: str, data: bytes) -> None:
        skipped = min(self._skip[name], len(data))
        self._skip[name] -= skipped
        rest = memoryview(data)[skipped:]
        while rest:
            rest = rest[os.write(self._files[name], rest) :]


def _seconds(stamp: bytes) -> str:
    """The engine's ``2026-11-21T07:46:43.265937537+01:00`` as ``01795247203.265937537``, which compares as text."""
    text = stamp.decode().replace("Z", "+00:00")
    moment = datetime.fromisoformat(text[:19] + text[-6:])
    return f"{int(moment.timestamp()):011d}.{text[20:29]}"
