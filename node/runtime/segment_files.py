"""The files in /dev/shm, and which processes map them. Used by ``kept_memory`` and ``shared_memory``."""

from __future__ import annotations

import os

from node.runtime import proc

FOLDER = "/dev/shm"
_PREFIX = FOLDER.encode() + b"/"


def unmapped(names: set[str]) -> set[str]:
    """Return those of these segments that no process maps."""
    for pid in proc.processes() if names else ():
        names = names - mapped(pid)
    return names


def mapped(pid: int) -> set[str]:
    """Return the names of the files that a process maps."""
    maps = proc.read(f"/proc/{pid}/maps")
    if _PREFIX not in maps:
        return set()
    paths = (line.split(None, 5)[-1] for line in maps.split(b"\n") if _PREFIX in line)
    return {os.fsdecode(path[len(_PREFIX) :].split(b"/")[0]) for path in paths if path.startswith(_PREFIX)}
