"""Reads the log file of one task: forwards from any offset, or its last lines. File access only. Used by ``logs``.

No file stays open between calls, so that thousands can be followed.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from master.api.log_lines import Assembler, LogLine
from master.collector.blocks import HEADER, Block, Key, block_from_line
from master.collector.scan import data_from, scan

WINDOW = 1 << 20
"""Bytes at the end to read first for a tail. Blocks that a killed fluentd repeated are closer together than this."""
_HEADER_BYTES = 160
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class TaskLog:
    """One file, read block by block up to ``limit``, which ``refresh`` sets. Malformed blocks are skipped."""

    def __init__(self, path: Path, task: str, *, position: int = 0, joined: bool = False) -> None:
        self.task = task
        self.assembler = Assembler(task, from_start=position == 0, joined=joined)
        self.limit = 0
        self._path = path
        self._start = self._position = position
        self._before: dict[Key, int] | None = None
        self._buffer = b""
        self._at = 0
        self._inode: int | None = None
        self._time = float("-inf")

    def refresh(self, info: os.stat_result) -> bool:
        """Update the limit to the file's current size. Return whether there may be something new."""
        if self._inode not in (None, info.st_ino) or info.st_size < self._position:
            # This is another file of the same name. The assembler drops what it repeats.
            self._position = 0
        # What was read beyond the last complete line may since have been truncated and rewritten.
        self._buffer, self._at = b"", 0
        self._inode = info.st_ino
        self.limit = info.st_size
        return self._position < self.limit

    def next_time(self, chunk: int) -> float | None:
        """Return when the next block was sent, never earlier than its predecessor; None: no complete block is left."""
        if not self._fill(_HEADER_BYTES, chunk):
            return None
        header = HEADER.match(self._buffer, self._at)
        if header is not None:
            self._time = max(self._time, float(header[4]))
        return self._time

    def lines(self, chunk: int) -> list[LogLine | None]:
        """Read the next block, and return the lines that it completes."""
        block = self._next(chunk)
        return [] if block is None else self.assembler.feed(block)

    def end(self, attempt: int, stream: str) -> int:
        """Return the offset up to which a stream was read, including what precedes the offset where reading began."""
        end = self.assembler.end(attempt, stream)
        if end is not None or self._start == 0:
            return end or 0
        if self._before is None:
            self._before = _ends_before(self._path, self._start)
        return self._before.get((attempt, stream), 0)

    def _next(self, chunk: int) -> Block | None:
        wanted = max(chunk, _HEADER_BYTES)
        while (end := self._buffer.find(b"\n", self._at)) < 0:
            if not self._fill(len(self._buffer) - self._at + wanted, chunk):
                self.limit = self._position
                self._buffer, self._at = b"", 0
                return None
            wanted *= 2
        line = self._buffer[self._at : end]
        self._position += end + 1 - self._at
        self._at = end + 1
        return block_from_line(line)

    def _fill(self, wanted: int, chunk: int) -> bool:
        """Read until the buffer has ``wanted`` unread bytes, or a complete line. Return whether it has."""
        if len(self._buffer) - self._at >= wanted or self._buffer.find(b"\n", self._at) >= 0:
            return True
        self._buffer, self._at = self._buffer[self._at :], 0
        start = self._position + len(self._buffer)
        data = _read(self._path, start, min(max(chunk, wanted - len(self._buffer)), self.limit - start))
        hole = data.find(b"\0")  # JSON has no zeros: the collector dropped the lines from here on
        if hole == 0:
            self._buffer, self._position = b"", min(self.limit, _behind_hole(self._path, start))
            return self._fill(wanted, chunk)
        self._buffer += data if hole < 0 else data[:hole]
        return len(self._buffer) >= wanted or b"\n" in self._buffer or (hole > 0 and self._fill(wanted, chunk))


def _ends_before(path: Path, position: int) -> dict[Key, int]:
    try:
        descriptor = os.open(path, _OPEN)
    except OSError:
        return {}
    try:
        return scan(descriptor, position)[1]
    finally:
        os.close(descriptor)


def _read(path: Path, start: int, size: int) -> bytes:
    if size <= 0:
        return b""
    try:
        descriptor = os.open(path, _OPEN)
    except OSError:
        return b""
    try:
        return os.pread(descriptor, size, start)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _behind_hole(path: Path, hole: int) -> int:
    descriptor = os.open(path, _OPEN)
    try:
        return data_from(descriptor, hole)
    finally:
        os.close(descriptor)


def tail_position(path: Path, count: int, size: int) -> int:
    """Return the offset at which to start reading for the last ``count`` lines; 0: the whole file is needed."""
    window = WINDOW
    while window < size:
        start = size - window
        line_start = start + _read(path, start, WINDOW).find(b"\n") + 1  # no block is longer
        if start < line_start < size and _enough(path, line_start, size, count):
            return line_start
        window *= 4
    return 0


def _enough(path: Path, start: int, size: int, count: int) -> bool:
    log = TaskLog(path, "", position=start)
    log.limit = size
    last: deque[bool] = deque(maxlen=count)
    while log.next_time(WINDOW) is not None:
        last.extend(line is not None for line in log.lines(WINDOW))
        if log.assembler.disordered:
            return False
    last.extend(line is not None for line in log.assembler.finish())
    return len(last) == count and all(last)


def known(lines: Iterator[LogLine | None] | list[LogLine | None]) -> list[LogLine]:
    """Drop the lines whose beginning was not read."""
    return [line for line in lines if line is not None]
