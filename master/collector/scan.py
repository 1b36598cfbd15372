"""Finds where each attempt's streams end in a log file, without parsing its text. Used by ``storage`` and the API."""

from __future__ import annotations

import os

from master.collector.blocks import HEADER, LINE_START, Key, block_from_line


def scan(descriptor: int, limit: int | None = None) -> tuple[int, dict[Key, int]]:
    """Return the size of the complete lines in the first ``limit`` bytes, and the end of each stream there.

    Reads only headers. Of each stream only the block that begins last is parsed.
    """
    last: dict[Key, tuple[int, int, int]] = {}
    ends: dict[Key, int] = {}
    size = 0
    with os.fdopen(os.dup(descriptor), "rb", buffering=1 << 20) as file:
        file.seek(0)
        for line in file:
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
