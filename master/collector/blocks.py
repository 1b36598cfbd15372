"""Blocks of a task's output as lines of JSON. The collector writes and recovers files with it, the API reads them.

Input is untrusted: anything that is not a block is returned as None, never as an error.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace

from grass.errors import UndecodableError
from grass.model.job import DEFAULT_OUTPUT_LIMIT
from grass.wire.codec import encode
from grass.wire.log_block import LOG_BLOCK, LogBlock, Stream

LINE_START = b'{"attempt"'
"""How each line begins. It cannot occur inside a line, because quotes in JSON strings are escaped."""
HEADER = re.compile(
    rb'\{"attempt": ?(\d{1,9}), ?"stream": ?"(stdout|stderr)", ?"offset": ?(\d{1,18}), ?"time": ?([0-9.e+]+)'
)
"""The fields before the text: enough to sort or skip a block without parsing it."""

Key = tuple[int, str]
"""Attempt and stream."""


@dataclass(frozen=True)
class Block:
    """``data`` at ``offset`` (bytes) of ``stream`` of ``attempt``; ``time``: wall clock of the node that sent it.

    ``limit``: bytes that its file may take."""

    attempt: int
    stream: Stream
    offset: int
    time: float
    data: bytes
    limit: int = field(default=DEFAULT_OUTPUT_LIMIT, compare=False)

    @property
    def key(self) -> Key:
        return self.attempt, self.stream

    @property
    def end(self) -> int:
        return self.offset + len(self.data)

    def after(self, offset: int) -> Block | None:
        """Return the part of the block from ``offset`` on, or None."""
        if self.offset >= offset:
            return self if self.data else None
        if self.end <= offset:
            return None
        return replace(self, offset=offset, data=self.data[offset - self.offset :])

    def to_line(self) -> bytes:
        block = LogBlock.of_data(self.attempt, self.stream, self.offset, self.time, self.data)
        return encode(block).encode() + b"\n"


def block_from_record(record: object) -> Block | None:
    """Return the block in a record of the forward protocol; None: it is not a block of Grass."""
    try:
        return _block(LOG_BLOCK.convert(record))
    except UndecodableError:
        return None


def block_from_line(line: bytes) -> Block | None:
    """Return the block in a line of a file, or None. If a killed writer left half a line before it, skip that."""
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
        return Block(block.attempt, block.stream, block.offset, block.time, block.data(), block.limit)
    except UnicodeError:
        return None
