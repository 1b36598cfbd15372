"""Mounts a folder of this machine in the mount namespace of a process: ``show_folder.py SOURCE PID TARGET``, as root.

A plain bind mount cannot name a folder of another namespace. A detached copy of the mount can be taken along.
"""

from __future__ import annotations

import ctypes
import os
import sys

_OPEN_TREE, _MOVE_MOUNT = 428, 429
_AT_FDCWD, _CLONE, _FROM_DESCRIPTOR = -100, 1, 4
_MOUNTS = 0x00020000
_LIBC = ctypes.CDLL(None, use_errno=True)


def main(source: str, pid: str, target: str) -> None:
    tree = _checked(_LIBC.syscall(_OPEN_TREE, _AT_FDCWD, source.encode(), _CLONE))
    with open(f"/proc/{pid}/ns/mnt") as namespace:
        _checked(_LIBC.setns(namespace.fileno(), _MOUNTS))
    _checked(_LIBC.syscall(_MOVE_MOUNT, tree, b"", _AT_FDCWD, target.encode(), _FROM_DESCRIPTOR))


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


if __name__ == "__main__":
    main(*sys.argv[1:])
