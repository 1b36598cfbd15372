"""Space on the disk of a folder or of an open file: free, promised in advance, given back.

Used by the store, the collector, the shipper of logs and `grass status`. Reads and writes no content.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

FULL = 16 << 20
"""Free bytes below which a disk counts as full: redis and the collector stop writing before it really is."""
_KEEP_SIZE = 1
_PUNCH_HOLE = 2


def free(folder: Path) -> int:
    """Return the bytes that an ordinary user may still write. Raises OSError: no such folder."""
    space = os.statvfs(folder)
    return space.f_bavail * space.f_frsize


def is_full(folder: Path) -> bool:
    """Return whether the disk counts as full. False if there is no such folder."""
    try:
        return free(folder) < FULL
    except OSError:
        return False


def allocate(descriptor: int, start: int, size: int) -> None:
    """Give the file these bytes of the disk before it needs them, without making it longer.

    Raises OSError: the disk is full, or its file system cannot do that."""
    _fallocate(descriptor, _KEEP_SIZE, start, size)


def punch(descriptor: int, start: int, end: int) -> None:
    """Give this part of the file back to the disk: it reads as zeros from now on, and the file keeps its length.

    Raises OSError: the file system cannot do that."""
    _fallocate(descriptor, _PUNCH_HOLE | _KEEP_SIZE, start, end - start)


def _fallocate(descriptor: int, mode: int, start: int, size: int) -> None:
    call = ctypes.CDLL(None, use_errno=True).fallocate  # ``os.posix_fallocate`` has no modes
    if call(descriptor, mode, ctypes.c_int64(start), ctypes.c_int64(size)):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
