"""Replies of the engine that go on: what a container prints, and what happens to containers.

They are read in the node-agent's own loop, without a thread each. The request is HTTP/1.0: the reply is then neither
cut into chunks nor followed by another one, and its end is the end of the connection.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from urllib.parse import urlencode

READ = 1 << 18
_HEADER = 8
_LONGEST_HEAD = 1 << 16
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


class Demultiplexer:
    """Cuts the engine's frames (stream, 3 × 0, length of 4 bytes, payload) into what each stream printed. Pure."""

    def __init__(self) -> None:
        self._header = b""
        self._stream = ""
        self._left = 0

    def feed(self, data: bytes) -> Iterator[tuple[str, memoryview]]:
        """(stream, bytes), in order; the payload of a frame need not be complete."""
        view = memoryview(data)
        while view:
            if not self._left:
                missing = _HEADER - len(self._header)
                self._header += view[:missing]
                view = view[missing:]
                if len(self._header) == _HEADER:
                    self._stream = _NAMES.get(self._header[0], "stderr")
                    self._left = int.from_bytes(self._header[4:], "big")
                    self._header = b""
                continue
            part = view[: self._left]
            self._left -= len(part)
            view = view[len(part) :]
            yield self._stream, part


class Log:
    """What a container prints, from its beginning, on its way into the attempt's files.

    ``paths``: of ``stdout`` and ``stderr``. As many bytes as a file holds already are left out at its beginning, so
    that whoever begins anew repeats nothing and misses nothing. Raises OSError: no engine, or no place on the disk.
    """

    def __init__(self, engine: str, container: str, paths: dict[str, str]) -> None:
        self._files: dict[str, int] = {}
        self._skip: dict[str, int] = {}
        self._frames = Demultiplexer()
        try:
            for name, path in paths.items():
                self._files[name] = file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
                self._skip[name] = os.fstat(file).st_size
            target = f"/containers/{container}/logs"
            self._stream = EngineStream(engine, target, follow="1", stdout="1", stderr="1")
        except OSError:
            self._close_files()
            raise

    def fileno(self) -> int:
        return self._stream.fileno()

    def pump(self) -> bool:
        """Write what has come; False when the log is over. Raises OSError when the disk takes no more."""
        data = self._stream.read()
        if data is None:
            return False
        if self._stream.status != 200:
            return not data and self._stream.status is None
        for name, part in self._frames.feed(data):
            skipped = min(self._skip[name], len(part))
            self._skip[name] -= skipped
            rest = part[skipped:]
            while rest:
                rest = rest[os.write(self._files[name], rest) :]
        return True

    def close(self) -> None:
        self._stream.close()
        self._close_files()

    def _close_files(self) -> None:
        while self._files:
            os.close(self._files.popitem()[1])
