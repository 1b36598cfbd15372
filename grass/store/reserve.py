"""Space of redis' disk that is kept for the time when the disk is full: ends of tasks, stops and deletions.

The space belongs to redis' append-only file itself: it is allocated behind the end of the file. A file beside it that
is removed when the disk is full would not do, because the task that filled the disk would take that space first. Kept
by ``grass.supervision.redis_reserve``, and asked by ``redis_link``.
"""

from __future__ import annotations

import os
from pathlib import Path

from grass.system import disk

MOST = 64 << 20
SHARE = 16
"""The reserve is this part of the disk, or ``MOST`` bytes."""
LEAST_FOR_CALLS = 4
"""Calls of users may use the reserve down to this part of it. The rest is for what the daemons report and decide."""
LEAST = 64 << 10
"""Bytes below which nothing is written any more: redis would end if it could not write."""


def size_for(folder: Path) -> int:
    """Return the bytes to keep on the disk of ``folder``. Raises OSError."""
    space = os.statvfs(folder)
    return min(MOST, space.f_blocks * space.f_frsize // SHARE)


def left(folder: Path) -> int:
    """Return by how many bytes redis' file may grow without new space of the disk; 0: there is no such file."""
    path = _log_file(folder)
    try:
        info = path.stat() if path else None
    except OSError:  # it was replaced just now
        return 0
    return max(0, info.st_blocks * 512 - info.st_size) if info else 0


def allows(folder: Path, *, call: bool) -> bool:
    """Return whether a write may use the reserve. ``call``: it is of a user, not of a daemon."""
    try:
        least = size_for(folder) // LEAST_FOR_CALLS if call else 0
    except OSError:
        return False
    return left(folder) >= max(LEAST, least)


def keep(folder: Path) -> None:
    """Allocate what is missing of the reserve, unless the disk would be full then. Raises OSError."""
    path, size = _log_file(folder), size_for(folder)
    if path is None or left(folder) >= size * 3 // 4 or disk.free(folder) < size + disk.FULL:
        return
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        disk.allocate(descriptor, os.fstat(descriptor).st_size, size)
    finally:
        os.close(descriptor)


def _log_file(folder: Path) -> Path | None:
    """Return the file that redis appends to. Servers from 7.0 on have several, and write the last one."""
    parts = sorted((folder / "appendonlydir").glob("*.incr.aof"), key=_number)
    if parts:
        return parts[-1]
    single = folder / "appendonly.aof"
    return single if single.exists() else None


def _number(path: Path) -> int:
    number = path.name.removesuffix(".incr.aof").rpartition(".")[2]
    return int(number) if number.isdigit() else 0
