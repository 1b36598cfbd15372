"""Streaming replies of the engine: the output of containers, and events.

They are read in the node-agent's loop, without a thread for each. Requests use HTTP/1.0, so that a reply is not chunked
and its end is the end of the connection.
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

from node.runtime.kind import Stream

READ = 1 << 18
_HEADER = 8
_LONGEST_HEAD = 1 << 16
_LONGEST_STAMP = 40
_ANSWER_SECONDS = 30
_NAMES: dict[int, Stream] = {1: "stdout", 2: "stderr"}


class EngineStream:
    """The reply to GET ``target`` with ``query``. Raises OSError when the engine does not answer."""

    def __init__(self, path: str, target: str, **query: str) -> None:
        self._head = b""
        self.status: int | None = None
        """HTTP status, once it was received."""
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
        """Return received data of the body; empty: none now; None: it has ended."""
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
    """Starts a prepared command and connects to its input and output. Raises OSError."""

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
        """Read the reply's head. Return the output that came with it."""
        answer = b""
        while b"\r\n\r\n" not in answer:
            data = self._socket.recv(READ)
            if not data or len(answer) > _LONGEST_HEAD:
                raise OSError("the container engine closed the connection")
            answer += data
        head, _, early = answer.partition(b"\r\n\r\n")
        if head.split(None, 2)[1] not in (b"101", b"200"):
            raise OSError(f"the container engine refused the command: {early.decode(errors='replace').strip()}")
        return early

    def fileno(self) -> int:
        return self._poll.fileno()

    def read(self) -> bytes | None:
        """Return output; empty: none now; None: it has ended."""
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
        """Write data; return how many bytes were taken within so many seconds."""
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
    """Splits received data into the engine's frames (stream, 3 zero bytes, 4 bytes of length, payload). Pure."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[tuple[Stream, memoryview]]:
        """Yield (stream, payload) of each complete frame, in order."""
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
    """Copies the output of a container into the attempt's files.

    ``paths``: of ``stdout`` and ``stderr``. Copying skips as many bytes as a file already has, so after a restart
    nothing is repeated or missing. Raises OSError: the engine does not answer, or the disk is full.

    The engine stamps each entry; the pieces of a long line have the same stamp. ``reopen`` uses the stamps to continue
    where the stream ended. It is also called once more after the container has ended, because an engine that waits for
    output when the container ends may leave out the last entries.
    """

    def __init__(self, engine: str, container: str, paths: dict[str, str]) -> None:
        self._engine = engine
        self._target = f"/containers/{container}/logs"
        self._files: dict[str, int] = {}
        self._skip: dict[str, int] = {}
        self._last: dict[str, tuple[bytes, int]] = {}
        """Stream → newest stamp, and the number of entries with it."""
        self._known: dict[str, tuple[bytes, int]] = {}
        """Stream → stamp and number of the entries that the reopened stream repeats at its beginning."""
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
        """Open the stream again. ``follow`` False: it ends after the present entries."""
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
        """Copy received output. Return False when the stream has ended. Raises OSError when the disk is full."""
        assert self._stream is not None
        data = self._stream.read()
        if data is None:
            return False
        if self._stream.status != 200:
            return not data and self._stream.status is None
        parts: dict[Stream, list[memoryview]] = {}
        for name, payload in self._frames.feed(data):
            if (part := self._new(name, payload)) is not None:
                parts.setdefault(name, []).append(part)
        for name, pieces in parts.items():
            self._write(name, b"".join(pieces))
        return True

    def pause(self) -> None:
        """Close the stream; ``reopen`` continues."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def close(self) -> None:
        self.pause()
        while self._files:
            os.close(self._files.popitem()[1])

    def _new(self, name: str, payload: memoryview) -> memoryview | None:
        """Return the text of an entry; None: it was copied before."""
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
    """Convert ``2026-11-21T07:46:43.265937537+01:00`` to ``01795247203.265937537``, which can be compared as text."""
    text = stamp.decode().replace("Z", "+00:00")
    moment = datetime.fromisoformat(text[:19] + text[-6:])
    return f"{int(moment.timestamp()):011d}.{text[20:29]}"
