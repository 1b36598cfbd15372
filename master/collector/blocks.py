"""A block of a task's output as a line of JSON, and back. The collector writes and recovers with it, the API reads.

Everything read here may be foreign: what is not a block is None, never an error.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

from grass.errors import UndecodableError
from grass.wire.codec import encode
from grass.wire.log_block import LOG_BLOCK, LogBlock, Stream

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
    stream: Stream
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
        block = LogBlock.of(self.attempt, self.stream, self.offset, self.time, self.data)
        return encode(block).encode() + b"\n"


def block_from_record(record: object) -> Block | None:
    """A record of the forward protocol; None when it is no block of ours."""
    try:
        return _block(LOG_BLOCK.convert(record))
    except UndecodableError:
        return None


def block_from_line(line: bytes) -> Block | None:
    """A line of the file. Of one that a killed writer left torn and that another was put behind, the latter."""
    start = line.rfind(LINE_START)
    if start < 0:
        return None
    try:
        return _block(LOG_BLOCK.decode(line[start:]))
    except UndecodableError:
        return None


def _block(block: LogBlock) -> Block | None:
    """Raises UndecodableError."""
    sound = 1 <= block.attempt < 10**9 and 0 <= block.offset < 10**18
    if not (sound and math.isfinite(block.time) and 0 <= block.time < 1e15):
        return None
    try:
        return Block(block.attempt, block.stream, block.offset, block.time, block.data())
    except UnicodeError:
        return None
