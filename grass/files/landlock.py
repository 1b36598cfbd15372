"""Restricts the files that this process and its children can open, by Landlock (Linux 5.13).

A check of a path before its use can be outrun: a task may put a symbolic link there in between. The kernel checks the
files themselves. The rules cover opening, making, removing and renaming files, and reading folders. They do not cover
`stat`, `chmod` and times. Used by ``grass.provision.files_command``.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from grass.errors import GrassError

# linux/landlock.h
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same numbers on all machines
_ASK_VERSION, _PATH_BENEATH = 1, 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_OF_ALL_VERSIONS = (1 << 13) - 1
"""What the first version handles: the above, removing, and making files of each kind."""
_REFER, _TRUNCATE = 1 << 13, 1 << 14
"""Since versions 2 and 3. Before version 2, a rename into another folder always fails, and rsync then copies."""
_SPECIAL = 1 << 6 | 1 << 9 | 1 << 10 | 1 << 11
"""Making devices, sockets and pipes."""
_PR_SET_NO_NEW_PRIVS = 38
_READ = _EXECUTE | _READ_FILE | _READ_DIR


class _Ruleset(ctypes.Structure):
    _fields_ = (("handled", ctypes.c_uint64),)


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


_libc = ctypes.CDLL(None, use_errno=True)


def version() -> int:
    """Return the version of Landlock that the kernel offers; 0: none."""
    return max(0, int(_libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_ASK_VERSION))))


def restrict(
    programs: Iterable[Path], write: Iterable[Path], *, read: Iterable[Path] = (), look: Iterable[Path] = ()
) -> None:
    """Allow this process no files but those in ``programs`` (to read and to execute), in ``write``, and in ``read``.

    It cannot be undone. In ``look`` and below, it may open folders, and so list the names in them, but no file. Paths
    that do not exist are left out, and so are links among ``write`` and ``read``: users may have made them. Raises
    GrassError: the kernel has no Landlock, or refuses.
    """
    offered = version()
    if not offered:
        raise GrassError("the kernel of the master has no Landlock (Linux 5.13 and later have it)")
    handled = _OF_ALL_VERSIONS | (_REFER if offered >= 2 else 0) | (_TRUNCATE if offered >= 3 else 0)
    asked = _Ruleset(handled)
    rules = _checked(_libc.syscall(_CREATE_RULESET, ctypes.byref(asked), ctypes.c_size_t(8), ctypes.c_uint32(0)))
    for path in programs:
        _allow(rules, path, _READ)
    for path in look:
        _allow(rules, path, _READ_DIR)
    for path in read:
        _allow(rules, path, _READ & ~_EXECUTE, os.O_NOFOLLOW)
    for path in write:
        _allow(rules, path, handled & ~_SPECIAL & ~_EXECUTE, os.O_NOFOLLOW)
    _checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _checked(_libc.syscall(_RESTRICT_SELF, rules, ctypes.c_uint32(0)))
    os.close(rules)


def _allow(rules: int, path: Path, access: int, flags: int = 0) -> None:
    with suppress(FileNotFoundError):
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC | flags)
        mode = os.fstat(opened).st_mode
        if not stat.S_ISDIR(mode):
            access &= _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
        if not stat.S_ISLNK(mode):
            rule = _Beneath(access, opened)
            _checked(_libc.syscall(_ADD_RULE, rules, _PATH_BENEATH, ctypes.byref(rule), ctypes.c_uint32(0)))
        os.close(opened)


def _checked(result: int) -> int:
    if result < 0:
        raise GrassError(f"Landlock on the master refused a rule: {os.strerror(ctypes.get_errno())}")
    return result
