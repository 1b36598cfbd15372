"""A block of a task's output as a line of JSON, and back. The collector writes and recovers with it, the API reads.

Everything read here may be foreign: what is not a block is None, never an error.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from dataclasses import dataclass, replace
from typing import Any

LINE_START = b'{"attempt"'
"""How each line begins. It cannot occur within one: quotes inside JSON strings are escaped."""
HEADER = re.compile(
    rb'\{"attempt": ?(\d{1,9}), ?"stream": ?"(stdout|stderr)", ?"offset": ?(\d{1,18}), ?"time": ?([0-9.e+]+)'
)
"""The fields before the text; enough to sort and skip a block without reading it."""

Key = tuple[int, str]
"""Attempt and stream."""


@dataclass(frozen=True)
class Block:
    """``data`` at ``offset`` (bytes) of ``stream`` of ``attempt``; ``time``: wall clock of the node that sent it."""

    attempt: int
    stream: str
    offset: int
    time: float
    data: bytes

    @property
    def key(self) -> Key:
        return self.attempt, self.stream

    @property
    def end(self) -> int:
        return self.offset + len(self.data)

    def after(self, offset: int) -> Block | None:
        """What of the block lies at or beyond ``offset``."""
        if self.offset >= offset:
            return self if self.data else None
        if self.end <= offset:
            return None
        return replace(self, offset=offset, data=self.data[offset - self.offset :])

    def to_line(self) -> bytes:
        record: dict[str, object] = {
            "attempt": self.attempt,
            "stream": self.stream,
            "offset": self.offset,
            "time": self.time,
        }
        try:
            record["text"] = self.data.decode()
        except UnicodeDecodeError:
            record["base64"] = base64.b64encode(self.data).decode()
        return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def block_from_record(record: Any) -> Block | None:
    """A record of the forward protocol, or a parsed line; None when it is no block of ours."""
    if not isinstance(record, dict):
        return None
    data = _data(record)
    attempt: Any = record.get("attempt")
    stream: Any = record.get("stream")
    offset: Any = record.get("offset")
    time: Any = record.get("time")
    if not (_whole(attempt, 1, 10**9) and _whole(offset, 0, 10**18) and stream in ("stdout", "stderr")):
        return None
    if data is None or isinstance(time, bool) or not isinstance(time, int | float):
        return None
    if not (math.isfinite(time) and 0 <= time < 1e15):
        return None
    return Block(attempt, stream, offset, float(time), data)


def block_from_line(line: bytes) -> Block | None:
    """A line of the file. Of one that a killed writer left torn and that another was put behind, the latter."""
    start = line.rfind(LINE_START)
    if start < 0:
        return None
    try:
        record = json.loads(line[start:])
    except (ValueError, RecursionError):
        return None
    return block_from_record(record)


def _whole(value: Any, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value < high


def _data(record: dict[Any, Any]) -> bytes | None:
    text, encoded = record.get("text"), record.get("base64")
    try:
        if isinstance(text, str):
            return text.encode()
        return base64.b64decode(encoded, validate=True) if isinstance(encoded, str) else None
    except (ValueError, binascii.Error):
        return None
