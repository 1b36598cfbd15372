"""Objects of System V in memory: segments, semaphores and message queues. They outlive the processes that made them.

The kernel lists those of the present namespace. Used by ``segments`` and ``isolation.shared_objects``.
"""

from __future__ import annotations

import ctypes
from typing import NamedTuple

from grass.lines import lines_of
from node.runtime import proc

KINDS = ("shm", "sem", "msg")
_LISTS = "/proc/sysvipc"
_REMOVE = 0
_libc = ctypes.CDLL(None)


class Segment(NamedTuple):
    """A segment of memory. ``creator``: pid of the process that made it. ``attached``: how many use it now.
    ``changed``: wall time, in whole seconds, of its making or of a later change of its rights."""

    number: int
    creator: int
    attached: int
    owner: int
    changed: int


def segments() -> list[Segment]:
    found = []
    for line in _lines("shm"):
        words = line.split()  # key shmid perms size cpid lpid nattch uid gid cuid cgid atime dtime ctime …
        found.append(Segment(*(int(words[index]) for index in (1, 4, 6, 7, 13))))
    return found


def any_left() -> bool:
    return any(_lines(kind) for kind in KINDS)


def remove(segment: Segment) -> None:
    """Remove it. Nothing happens if somebody has, or it belongs to another user."""
    _libc.shmctl(segment.number, _REMOVE, None)


def _lines(kind: str) -> list[bytes]:
    """Return the list without its first line; empty: this kernel has none."""
    return lines_of(proc.read(f"{_LISTS}/{kind}"))[1:]
