"""System calls by ctypes, for which Python has no function. Used by ``keyrings`` and ``isolation``."""

from __future__ import annotations

import ctypes
import os
import platform

_GENERIC = {"clone": 220, "keyctl": 219, "seccomp": 277}
NUMBERS = {"x86_64": {"clone": 56, "keyctl": 250, "seccomp": 317}}.get(platform.machine(), _GENERIC)
"""Of calls for which libc has no function. All machines that Linux learned of after x86_64 share theirs."""


def checked(result: int, what: str) -> None:
    """Raise OSError if a call failed. Its library must have been opened with ``use_errno``."""
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number).lower()}")
