"""Results of system calls by ctypes, for which Python has no function. Used by ``processes`` and ``starter``."""

from __future__ import annotations

import ctypes
import os


def checked(result: int, what: str) -> None:
    """Raise OSError if a call failed. Its library must have been opened with ``use_errno``."""
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number).lower()}")
