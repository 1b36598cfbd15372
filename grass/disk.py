"""Room on the disk of a folder. Called by the store's edge and by what explains a cluster; writes nothing."""

from __future__ import annotations

import os
from pathlib import Path

FULL = 16 << 20
"""Free bytes below which a disk counts as full: redis and the collector stop writing before the last byte is gone."""


def free(folder: Path) -> int:
    """Bytes that an ordinary user may still write there. OSError: there is no such folder."""
    room = os.statvfs(folder)
    return room.f_bavail * room.f_frsize


def is_full(folder: Path) -> bool:
    """False where there is no such folder."""
    try:
        return free(folder) < FULL
    except OSError:
        return False
