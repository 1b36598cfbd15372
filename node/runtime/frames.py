"""JSON lists, one per line: the messages on the shepherd's socket, and the entries of its journal.

Each list is a word and the fields of the named tuple that the word stands for. Used by the shepherd and its clients.

msgspec is not used here: it would cost the shepherd 2 MiB and 10 ms at each start.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

_T = TypeVar("_T")
Message = list[Any]  # Any: the receiver matches it against patterns
WireReason = dict[str, object]
"""A reason as JSON. The shepherd passes it on unchanged: it outlives upgrades, and may not know the code."""

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True).encode
READ = 1 << 20


def pack(message: object) -> bytes:
    """Return a message as one line."""
    return _encode(message).encode() + b"\n"


def unpacked(message: Message, kinds: Mapping[str, type[_T]]) -> _T | None:
    """Return the named tuple that a message's word stands for; None: an unknown word. Raises TypeError, as ``filled``.

    The types of its fields are not checked.
    """
    match message:
        case [str(word), *fields] if word in kinds:
            return filled(kinds[word], fields)
    return None


def filled(kind: type[_T], fields: Iterable[Any]) -> _T:
    """Return a named tuple, without the fields that a later version adds. Raises TypeError: fields are missing."""
    return kind(*[*fields][: len(kind._fields)])  # type: ignore[attr-defined]


class Lines:
    """Splits received bytes into messages."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[Message]:
        """Return the messages that ``data`` completes. Raises ValueError for a line that is not JSON."""
        *lines, self._rest = (self._rest + data).split(b"\n") if self._rest else data.split(b"\n")
        return [json.loads(line) for line in lines]


class Outbox:
    """Bytes that wait to be written to a non-blocking socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._waiting = bytearray()

    def __len__(self) -> int:
        return len(self._waiting)

    def send(self, data: bytes = b"") -> None:
        """Send what the socket accepts and keep the rest. Raises OSError when the peer is gone."""
        if self._waiting:
            self._waiting += data
            data = bytes(self._waiting)
            self._waiting.clear()
        view = memoryview(data)
        while view:
            try:
                view = view[self._connection.send(view) :]
            except BlockingIOError:
                self._waiting += view
                return
