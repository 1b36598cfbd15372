"""The kernel's table of mounts, and calls that change it.

Read by the node-agent and by the runtimes; changed by ``node.share_mount`` and ``node.share_rebinding``, and in views
of tasks by ``node.runtime.isolation``. Reading the table touches no file system, so a dead mount cannot hang the
reader.
"""

from __future__ import annotations

import ctypes
import os
import re
import select
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from grass.lines import lines_of

LISTING_KEPT = 1.0
"""Seconds for which a FUSE mount of the share keeps what it knows of a folder."""
_TABLE = Path("/proc/self/mountinfo")
_ESCAPED = re.compile(r"\\([0-7]{3})")
# mount(2), umount2(2)
_BIND, _SHARED, _DETACH = 4096, 1 << 20, 2


class Mounted(NamedTuple):
    """One line of the table. ``propagates``: its changes reach other mount namespaces, such as those of containers."""

    point: str
    kind: str
    propagates: bool

    @property
    def through_fuse(self) -> bool:
        return self.kind.split(".")[0] == "fuse"


def mounts(table: str | None = None) -> Iterator[Mounted]:
    """Yield the mounts of this process's namespace, oldest first. The format is that of proc(5), mountinfo."""
    for line in lines_of(table if table is not None else _read(_TABLE)):
        before, _, after = line.partition(" - ")
        words = before.split(" ")
        yield Mounted(_point(line), after.split()[0], any(tag.startswith(("shared:", "master:")) for tag in words[6:]))


def mount_of(path: Path, table: str | None = None) -> Mounted:
    """Return the mount that holds the absolute ``path``: the newest of those with the longest mount point."""
    found = Mounted("/", "", False)
    for each in mounts(table):
        if path.is_relative_to(each.point) and len(each.point) >= len(found.point):
            found = each
    return found


def mount_point(path: Path, table: str | None = None) -> str:
    """Return the mount point of the file system that holds the absolute ``path``; ``/`` without a mount of its own."""
    return mount_of(path, table).point


def lines_at(point: str, table: Path = _TABLE) -> tuple[str, ...]:
    """Return the table's lines of a mount point, which change with every mount there."""
    return tuple(line for line in lines_of(_read(table)) if _point(line) == point)


def _read(table: Path) -> str:
    """Return the table. Names in it are bytes, with any character but blanks and line feeds."""
    return os.fsdecode(table.read_bytes())


def root(line: str) -> str:
    """Return which folder of its file system is mounted, of a line of the table.

    The kernel also takes a folder for deleted whose look-up failed, as while a share is away.
    """
    return _unescaped(line.split(" ", 4)[3]).removesuffix("//deleted")


def _point(line: str) -> str:
    return _unescaped(line.split(" ", 5)[4])


def _unescaped(word: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), word)


def newest(table: str) -> dict[str, str]:
    """Return the line of the newest mount at each mount point, which is the one that programs reach."""
    return {_point(line): line for line in lines_of(table)}


def kind(line: str) -> str:
    """Return the type of the file system of a line of the table."""
    return line.partition(" - ")[2].split(" ", 1)[0]


def number(line: str) -> int:
    """Return the number of the mount of a line of the table."""
    return int(line.partition(" ")[0])


def device(line: str) -> str:
    """Return the device (``major:minor``) of a line of the table."""
    return line.split(" ", 3)[2]


def read_only(line: str) -> bool:
    """Return whether the mount of a line of the table is read-only."""
    return "ro" in line.split(" ", 6)[5].split(",")


class Changes:
    """Tells of changes of the table of one mount namespace: that of this process when it was made, also if the process
    has left it. Asking takes a hundredth of the time of reading the table."""

    def __init__(self) -> None:
        self._table = os.open(_TABLE, os.O_RDONLY | os.O_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._table, select.POLLPRI)

    def seen(self) -> bool:
        """Return whether there was a change since the last call."""
        return bool(self._poll.poll(0))

    def table(self) -> str:
        """Return the table. A copy of this process may read it at the same time."""
        read = b""
        while part := os.pread(self._table, 1 << 16, len(read)):
            read += part
        return read.decode(errors="surrogateescape")

    def close(self) -> None:
        os.close(self._table)


def stack(source: str, target: str) -> None:
    """Bind-mount ``source`` over ``target``, above earlier mounts there, in every mount namespace that receives the
    changes of ``target``. Raises OSError."""
    _mount(source, target, _BIND)
    _mount("none", target, _SHARED)


def detach(target: str) -> None:
    """Detach the newest mount at ``target``. Programs that still use it keep it. Raises OSError."""
    _call("umount2", target, target.encode(), _DETACH)


def _mount(source: str, target: str, flags: int) -> None:
    _call("mount", target, source.encode(), target.encode(), None, ctypes.c_ulong(flags), None)


def _call(name: str, path: str, *arguments: object) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments):
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}", path)
