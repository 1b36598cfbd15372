"""Scalars in an event file of TensorBoard, as `torch.utils.tensorboard`, TensorFlow and others write it. Pure.

A file is records (TFRecord): length, a checksum of it, a message `Event` of Protocol Buffers, and a checksum of that.
Of the messages a few fields count, so no library is needed: TensorBoard's own reader brings 178 MiB of packages. Used
by ``event_files``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

MOST_RECORD = 16 << 10
"""Bytes of a record that is read. Pictures and histograms, which are larger, are skipped."""
_HEAD = struct.Struct("<QI")
_END = 4
"""Bytes of the checksum behind a message."""
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_TENSOR_TYPES = {1: _FLOAT, 2: _DOUBLE}
"""DT_FLOAT and DT_DOUBLE."""


class Scalar(NamedTuple):
    """One value. ``at``: wall seconds."""

    tag: str
    step: int
    value: float
    at: float


class DamagedError(Exception):
    """What follows in the file are no records."""


class Record(NamedTuple):
    """A record, at its place in what was read. ``message`` None: it is too large, and was skipped."""

    message: bytes | None
    end: int
    """Where the next one begins."""


def records(content: bytes, size: int) -> Iterator[Record]:
    """Yield the whole records at the beginning of ``content``. ``size``: bytes of the file from there on; a record that
    is skipped may end beyond ``content``. Raises DamagedError."""
    at = 0
    while at + _HEAD.size <= len(content):
        length, checksum = _HEAD.unpack_from(content, at)
        if masked_crc(content[at : at + 8]) != checksum:
            raise DamagedError("the length of a record is damaged")
        end = at + _HEAD.size + length + _END
        if end > size:
            return  # it is still being written, or was cut off
        if length > MOST_RECORD:
            yield Record(None, end)
        elif end > len(content):
            return
        else:
            yield Record(content[at + _HEAD.size : end - _END], end)
        at = end


def scalars(message: bytes) -> list[Scalar]:
    """Return the scalars of an ``Event``. Raises DamagedError."""
    at, step, found = 0.0, 0, []
    try:
        for number, value in _fields(message):
            if number == 1 and isinstance(value, bytes):
                at = _DOUBLE.unpack(value)[0]
            elif number == 2 and isinstance(value, int):
                step = value if value < 1 << 63 else value - (1 << 64)
            elif number == 5 and isinstance(value, bytes):
                found += [pair for number, part in _fields(value) if number == 1 for pair in _scalar(part)]
        return [Scalar(tag, step, value, at) for tag, value in found]
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise DamagedError(f"a message is damaged: {error}") from None


def _scalar(part: bytes | int) -> list[tuple[str, float]]:
    """Return tag and value of a ``Summary.Value``; none: it is no scalar."""
    if isinstance(part, int):
        return []
    tag, value = "", None
    for number, content in _fields(part):
        if number == 1 and isinstance(content, bytes):
            tag = content.decode()
        elif number == 2 and isinstance(content, bytes):
            value = _FLOAT.unpack(content)[0]
        elif number == 8 and isinstance(content, bytes):
            value = _of_tensor(content)
    return [] if value is None or not tag else [(tag, value)]


def _of_tensor(content: bytes) -> float | None:
    """Return the only number of a ``TensorProto``, which newer versions write in place of a ``simple_value``."""
    kind, raw = _FLOAT, b""
    for number, value in _fields(content):
        if number == 1 and isinstance(value, int):
            if value not in _TENSOR_TYPES:
                return None  # a text, or a picture
            kind = _TENSOR_TYPES[value]
        elif number in (4, 5, 6) and isinstance(value, bytes):
            raw = value
    return kind.unpack(raw)[0] if len(raw) == kind.size else None


def _fields(message: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Yield the fields of a message: number, and bytes or a whole number."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        match key & 7:
            case 0:
                value, at = _varint(message, at)
                yield key >> 3, value
                continue
            case 1:
                size = 8
            case 2:
                size, at = _varint(message, at)
            case 5:
                size = 4
            case _:
                raise DamagedError("a message is damaged: a field of no known kind")
        if at + size > len(message):
            raise DamagedError("a message is damaged: it ends in the middle of a field")
        yield key >> 3, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise DamagedError("a message is damaged: a number without an end")


def masked_crc(content: bytes) -> int:
    """Return the checksum of TFRecord: CRC-32C (Castagnoli), rotated, and a constant added."""
    found = 0xFFFFFFFF
    for byte in content:
        found = _TABLE[(found ^ byte) & 0xFF] ^ (found >> 8)
    found ^= 0xFFFFFFFF
    return (((found >> 15) | (found << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _entry(number: int) -> int:
    for _ in range(8):
        number = (number >> 1) ^ (0x82F63B78 if number & 1 else 0)
    return number


_TABLE = tuple(map(_entry, range(256)))
