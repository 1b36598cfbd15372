"""System calls by ctypes, for which Python has no function. Used by ``keyrings``,
``isolation.processes``, ``isolation.starter``, ``isolation.system_call_filter`` and ``node.share_rebinding``.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform

OPEN_TREE, MOVE_MOUNT = 428, 429
OPENAT2, MOUNT_SETATTR = 437, 442
"""System calls of Linux 5.2, 5.6 and 5.12, with these numbers on every machine. libc has names for the first two only
since 2.36."""
_OF_LATER = {"clone": 220, "keyctl": 219, "seccomp": 277}
"""The machines that Linux learned of last share their numbers."""
_NUMBERS = {
    "x86_64": {"clone": 56, "keyctl": 250, "seccomp": 317},
    "ppc64le": {"clone": 120, "keyctl": 271, "seccomp": 358},
    **dict.fromkeys(("aarch64", "riscv64", "loongarch64"), _OF_LATER),
}


def number(name: str) -> int:
    """Return the number of a call for which libc has no function. Raises OSError: it is not known on this machine."""
    machine = platform.machine()
    if machine not in _NUMBERS:
        raise OSError(errno.ENOSYS, f"the number of the system call {name} is not known on {machine}")
    return _NUMBERS[machine][name]


def checked(result: int, what: str) -> None:
    """Raise OSError if a call failed. Its library must have been opened with ``use_errno``."""
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number).lower()}")
