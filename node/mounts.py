"""The kernel's table of mounts, and the three calls that change it.

Read by the node-agent and by the docker runtime; changed by ``node.share_mount`` only. Reading the table touches no
file system, so a dead mount cannot hang the reader.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_TABLE = Path("/proc/self/mountinfo")
_ESCAPED = re.compile(r"\\([0-7]{3})")
# mount(2), umount2(2)
_BIND, _SHARED, _DETACH = 4096, 1 << 20, 2


class Mounted(NamedTuple):
    """One line of the table. ``propagates``: other mount namespaces, such as containers, can receive its changes."""

    point: str
    kind: str
    propagates: bool

    @property
    def through_fuse(self) -> bool:
        return self.kind.split(".")[0] == "fuse"


def mounts(table: str | None = None) -> Iterator[Mounted]:
    """The mounts of this process's namespace, in the order in which they were made. Format: proc(5), mountinfo."""
    for line in (table if table is not None else _TABLE.read_text()).splitlines():
        before, _, after = line.partition(" - ")
        words = before.split()
        point = _ESCAPED.sub(lambda match: chr(int(match[1], 8)), words[4])
        yield Mounted(point, after.split()[0], any(tag.startswith(("shared:", "master:")) for tag in words[6:]))


def mount_of(path: Path, table: str | None = None) -> Mounted:
    """The mount that ``path``, which is absolute, lies on: the topmost one of those with the longest mount point."""
    found = Mounted("/", "", False)
    for each in mounts(table):
        if path.is_relative_to(each.point) and len(each.point) >= len(found.point):
            found = each
    return found


def mount_point(path: Path, table: str | None = None) -> str:
    """Of the file system that ``path``, which is absolute, lies on; ``/`` where nothing is mounted above it."""
    return mount_of(path, table).point


def stack(source: str, target: str) -> None:
    """Show what is mounted at ``source`` at ``target``, above whatever is mounted there, in every mount namespace that
    receives the changes of ``target``. Raises OSError."""
    _mount(source, target, _BIND)
    _mount("none", target, _SHARED)


def detach(target: str) -> None:
    """Take away the topmost mount at ``target``; whoever uses it keeps it until then. Raises OSError."""
    _call("umount2", target, target.encode(), _DETACH)


def _mount(source: str, target: str, flags: int) -> None:
    _call("mount", target, source.encode(), target.encode(), None, ctypes.c_ulong(flags), None)


def _call(name: str, path: str, *arguments: object) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments):
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}", path)
