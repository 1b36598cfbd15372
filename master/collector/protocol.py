"""The receiving side of fluentd's forward protocol v1: all four modes of it. Pure.

Not here: the handshake (HELO, PING, PONG) and UDP heartbeats, which a unix socket does not need.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgpack

MESSAGE_LIMIT = 8 << 20
"""Bytes of one message, also when decompressed. fluentd's own senders stay below it by default."""


class ProtocolError(ValueError):
    """What a client sent is not the forward protocol, or too much; its connection is closed."""


@dataclass(frozen=True)
class Message:
    """``records`` can be iterated once. ``chunk``: what to acknowledge, None when nothing is asked for."""

    tag: str
    records: Iterator[Any]
    chunk: str | None


class Decoder:
    """Bytes of one connection in, messages out. Holds at most one message that is not complete."""

    def __init__(self) -> None:
        self._unpacker = _unpacker()
        self._received = 0
        self._done = 0

    def feed(self, data: bytes) -> Iterator[Message]:
        """Raises ProtocolError; the connection is of no use after that."""
        self._received += len(data)
        try:
            self._unpacker.feed(data)
            for wire in self._unpacker:
                self._done = self._unpacker.tell()
                message = _message(wire)
                if message is not None:
                    yield message
        except (ValueError, msgpack.UnpackException) as error:
            raise _refused(error) from error
        # The unpacker builds objects as bytes come in, so its own limit on what it buffers is none on a message.
        if self._received - self._done > MESSAGE_LIMIT:
            raise ProtocolError(f"a message of more than {MESSAGE_LIMIT} bytes")


def _unpacker() -> Any:
    # Arrays are allocated by what their header claims, one per level of nesting; hence the small limit.
    return msgpack.Unpacker(
        max_buffer_size=MESSAGE_LIMIT + (1 << 20),
        max_str_len=MESSAGE_LIMIT,
        max_bin_len=MESSAGE_LIMIT,
        max_array_len=8192,
        max_map_len=1024,
        max_ext_len=64,
        unicode_errors="surrogateescape",
    )


def _message(wire: Any) -> Message | None:
    """None for what is no message but harmless: a heartbeat."""
    if wire is None:
        return None
    if not (isinstance(wire, list) and 2 <= len(wire) <= 4 and isinstance(wire[0], str)):
        raise ProtocolError("a message is an array that begins with a tag")
    match wire[1:]:
        case [list() as entries, *rest]:
            return Message(wire[0], _entries(iter(entries)), _chunk(rest))
        case [str() | bytes() as packed, *rest]:
            data = packed.encode(errors="surrogateescape") if isinstance(packed, str) else packed
            if rest and isinstance(rest[0], dict) and rest[0].get("compressed") == "gzip":
                data = _decompress(data)
            unpacker = _unpacker()
            unpacker.feed(data)
            return Message(wire[0], _entries(unpacker), _chunk(rest))
        case [_, record, *rest]:
            return Message(wire[0], iter([record]), _chunk(rest))
    raise ProtocolError("a message holds a time and a record, or entries")


def _chunk(rest: list[Any]) -> str | None:
    chunk = rest[0].get("chunk") if rest and isinstance(rest[0], dict) else None
    return chunk if isinstance(chunk, str) and len(chunk) <= 256 else None


def _entries(entries: Iterator[Any]) -> Iterator[Any]:
    """The records of ``[time, record]`` pairs; whatever is no pair is passed on as None, to be counted."""
    try:
        for entry in entries:
            yield entry[1] if isinstance(entry, list) and len(entry) == 2 else None
    except (ValueError, msgpack.UnpackException) as error:
        raise _refused(error) from error


def _refused(error: Exception) -> ProtocolError:
    return error if isinstance(error, ProtocolError) else ProtocolError(f"not the forward protocol: {error!r}")


def _decompress(data: bytes) -> bytes:
    """gzip, possibly several members one after the other, as fluentd concatenates them."""
    parts: list[bytes] = []
    room = MESSAGE_LIMIT
    while data:
        member = zlib.decompressobj(wbits=31)
        try:
            parts.append(member.decompress(data, room + 1))
        except zlib.error as error:
            raise ProtocolError(f"bad gzip data: {error}") from error
        room -= len(parts[-1])
        if room < 0:
            raise ProtocolError(f"a message of more than {MESSAGE_LIMIT} bytes when decompressed")
        if not member.eof:
            raise ProtocolError("gzip data ends too early")
        data = member.unused_data
    return b"".join(parts)
