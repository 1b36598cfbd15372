"""The receiving side of fluentd's forward protocol v1, in all four modes. Pure. Used by ``server``.

The handshake (HELO, PING, PONG) and UDP heartbeats are left out, because a unix socket does not need them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgpack

MESSAGE_LIMIT = 8 << 20
"""Bytes of one message, also when decompressed. By default fluentd sends less."""


class ProtocolError(ValueError):
    """The client does not speak the forward protocol, or its message is too large. Its connection is closed."""


@dataclass(frozen=True)
class Message:
    """One message of the forward protocol.

    ``records``: decoded MessagePack of any type, to be iterated once. ``chunk``: what to acknowledge, or None.
    """

    tag: str
    records: Iterator[Any]
    chunk: str | None


class Decoder:
    """Decodes the bytes of one connection into messages. Buffers at most one incomplete message."""

    def __init__(self) -> None:
        self._unpacker = _unpacker()
        self._received = 0
        self._done = 0

    def feed(self, data: bytes) -> Iterator[Message]:
        """Yield the messages that are complete now. After a ProtocolError the connection cannot be used any more."""
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
        # The unpacker builds objects while bytes arrive, so its own limit does not bound the size of a message.
        if self._received - self._done > MESSAGE_LIMIT:
            raise ProtocolError(f"message larger than {MESSAGE_LIMIT} bytes")


def _unpacker() -> Any:
    # An array is allocated by the length in its header, one per level of nesting, so the limit is small.
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
    """Return the message, or None for a heartbeat."""
    if wire is None:
        return None
    if not (isinstance(wire, list) and 2 <= len(wire) <= 4 and isinstance(wire[0], str)):
        raise ProtocolError("a message must be an array that begins with a tag")
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
    raise ProtocolError("a message must have a time and a record, or entries")


def _chunk(rest: list[Any]) -> str | None:
    chunk = rest[0].get("chunk") if rest and isinstance(rest[0], dict) else None
    return chunk if isinstance(chunk, str) and len(chunk) <= 256 else None


def _entries(entries: Iterator[Any]) -> Iterator[Any]:
    """Yield the records of ``[time, record]`` pairs; None for anything else, so that it is counted."""
    try:
        for entry in entries:
            yield entry[1] if isinstance(entry, list) and len(entry) == 2 else None
    except (ValueError, msgpack.UnpackException) as error:
        raise _refused(error) from error


def _refused(error: Exception) -> ProtocolError:
    return error if isinstance(error, ProtocolError) else ProtocolError(f"not the forward protocol: {error!r}")


def _decompress(data: bytes) -> bytes:
    """Decompress gzip data, which may have several members, because fluentd concatenates them."""
    parts: list[bytes] = []
    left = MESSAGE_LIMIT
    while data:
        member = zlib.decompressobj(wbits=31)
        try:
            parts.append(member.decompress(data, left + 1))
        except zlib.error as error:
            raise ProtocolError(f"bad gzip data: {error}") from error
        left -= len(parts[-1])
        if left < 0:
            raise ProtocolError(f"message larger than {MESSAGE_LIMIT} bytes when decompressed")
        if not member.eof:
            raise ProtocolError("gzip data ends too early")
        data = member.unused_data
    return b"".join(parts)
