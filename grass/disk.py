"""Free space on the disk of a folder. Called by the redis backend and by `grass status`; writes nothing."""

from __future__ import annotations

import os
from pathlib import Path

FULL = 16 << 20
"""Free bytes below which a disk counts as full: redis and the collector stop writing before it really is."""


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
