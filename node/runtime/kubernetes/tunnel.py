"""Carries connections of a task over one pair of streams to a socket of this machine. Used by ``relays``.

The other end is ``grass/task/library/python/grass_relay.py``. Of each connection, the first request gets the token of
the task; the server takes no second one.
"""

from __future__ import annotations

import re
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple, Protocol

from grass.errors import UnreachableError

_MOST_CONNECTIONS = 64
_MOST_HEAD, _MOST_PIECE = 1 << 16, 1 << 20
_PIECE = 1 << 16
_FRAME = struct.Struct(">II")
_END_OF_HEAD = b"\r\n\r\n"
_AUTHORIZATION = re.compile(rb"(?im)^authorization:[^\r\n]*\r\n")


class Pipe(Protocol):
    """A program whose standard input and output are connected. ``write`` may be called in any thread."""

    def read(self, size: int = -1, /) -> bytes: ...

    def write(self, data: bytes, /) -> int: ...


class Door(NamedTuple):
    """Where the API is on this machine, and the token of an attempt."""

    socket: str
    token: str


class Tunnel:
    """``run`` is for one thread, ``beat`` for any."""

    def __init__(self, pipe: Pipe, door: Door) -> None:
        self._pipe, self._door = pipe, door
        self._lock = threading.Lock()
        self._connections: dict[int, _Connection] = {}
        self.used = False
        """Whether anything arrived."""

    def run(self) -> None:
        """Carry until the pipe ends, or what arrives is no piece."""
        try:
            while (head := self._read(_FRAME.size)) is not None:
                number, length = _FRAME.unpack(head)
                if length > _MOST_PIECE or (data := self._read(length)) is None:
                    return
                self.used = True
                self._take(number, data)
        finally:
            for connection in list(self._connections.values()):
                connection.end()

    def beat(self) -> None:
        """Send a sign of life."""
        self._send(0, b"")

    def _read(self, size: int) -> bytes | None:
        data = b""
        while len(data) < size:
            piece = self._pipe.read(size - len(data))
            if not piece:
                return None
            data += piece
        return data

    def _take(self, number: int, data: bytes) -> None:
        connection = self._connections.get(number)
        if connection is None and data:
            if len(self._connections) >= _MOST_CONNECTIONS:
                self._send(number, b"")
                return
            connection = self._connections[number] = _Connection(self._door)
        if connection is None:
            return
        if not data:
            if not connection.begun:
                self._connections.pop(number)
            connection.end()
            return
        begun = connection.begun
        connection.take(data)
        if connection.begun and not begun:
            threading.Thread(target=self._answer, args=(number, connection), name="pod-api-reply", daemon=True).start()

    def _answer(self, number: int, connection: _Connection) -> None:
        for data in connection.replies():
            self._send(number, data)
        self._connections.pop(number, None)
        self._send(number, b"")

    def _send(self, number: int, data: bytes) -> None:
        with self._lock, suppress(UnreachableError, OSError):
            self._pipe.write(_FRAME.pack(number, len(data)) + data)


class _Connection:
    """One connection. It is open to the API once the head of its request is there."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._head = b""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.begun = False

    def take(self, data: bytes) -> None:
        """Pass on a part of the request."""
        if not self.begun:
            self._head += data
            if _END_OF_HEAD not in self._head and len(self._head) <= _MOST_HEAD:
                return
            self.begun, data = True, _with_token(self._head, self._door.token)
            with suppress(OSError):
                self._socket.connect(self._door.socket)
        with suppress(OSError):  # the end of the reply says so
            self._socket.sendall(data)

    def replies(self) -> Iterator[bytes]:
        """Yield the parts of the reply, then close the connection."""
        with self._socket, suppress(OSError):
            while data := self._socket.recv(_PIECE):
                yield data

    def end(self) -> None:
        """End it. Once its request has begun, ``replies`` closes it."""
        if not self.begun:
            self._socket.close()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)


def _with_token(request: bytes, token: str) -> bytes:
    head, end, rest = request.partition(_END_OF_HEAD)
    line, _, fields = head.partition(b"\r\n")
    kept = _AUTHORIZATION.sub(b"", fields + b"\r\n")
    return b"".join((line, b"\r\nAuthorization: Bearer ", token.encode(), b"\r\n", kept.rstrip(b"\r\n"), end, rest))
