"""Finds where each attempt's streams end in a log file, without parsing its text. Used by ``storage`` and the API."""

from __future__ import annotations

import errno
import os
from io import BufferedReader, FileIO

from master.collector.blocks import HEADER, LINE_START, Key, block_from_line

_LONGEST = 64 << 20
"""Bytes of a line: more than any message of the collector has. A longer one is of nobody, and counts as torn."""
_PIECE = 1 << 16


def scan(descriptor: int, limit: int | None = None) -> tuple[int, dict[Key, int]]:
    """Return the size of the complete lines in the first ``limit`` bytes, and the end of each stream there.

    Reads only headers. Of each stream only the block that begins last is parsed. Holes are skipped.
    """
    last: dict[Key, tuple[int, int, int]] = {}
    ends: dict[Key, int] = {}
    size = 0
    with BufferedReader(FileIO(os.dup(descriptor)), 1 << 20) as file:
        file.seek(0)
        while line := file.readline(_LONGEST) if file.peek(1)[:1] != b"\0" else b"\0":
            if line == b"\0":
                size = data_from(descriptor, size)
                file.seek(size)
                continue
            if not line.endswith(b"\n") or (limit is not None and size + len(line) > limit):
                break
            _note(line, size, last, ends)
            size += len(line)
        for _, start, length in last.values():
            file.seek(start)
            _take(file.read(length), ends)
    return size, ends


def _note(line: bytes, start: int, last: dict[Key, tuple[int, int, int]], ends: dict[Key, int]) -> None:
    header = HEADER.match(line)
    if header is None or line.rfind(LINE_START) > 0 or not line.endswith(b'"}\n'):
        _take(line, ends)
        return
    key, offset = (int(header[1]), header[2].decode()), int(header[3])
    if key not in last or offset >= last[key][0]:
        last[key] = (offset, start, len(line))


def _take(line: bytes, ends: dict[Key, int]) -> None:
    block = block_from_line(line)
    if block is not None:
        ends[block.key] = max(ends.get(block.key, 0), block.end)


def data_from(descriptor: int, hole: int) -> int:
    """Return where the data behind a hole begins that ``Storage`` made at this offset, or the end of the file."""
    present = os.lseek(descriptor, 0, os.SEEK_CUR)  # a buffer that shares the descriptor relies on it
    try:
        at = os.lseek(descriptor, hole, os.SEEK_DATA)
        while data := os.pread(descriptor, _PIECE, at):  # file systems round holes: zeros may be left at both ends
            rest = data.lstrip(b"\0")
            if rest:
                return at + len(data) - len(rest)
            at = os.lseek(descriptor, at + len(data), os.SEEK_DATA)
    except OSError as error:
        if error.errno != errno.ENXIO:  # no more data
            raise
        at = os.fstat(descriptor).st_size
    finally:
        os.lseek(descriptor, present, os.SEEK_SET)
    return at
