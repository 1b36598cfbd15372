"""Segments of attempts in /dev/shm: records their owners, and removes segments that ended attempts left.

A segment outlives its processes, so those of killed tasks would stay until the next boot. A segment is removed only if
a process of the attempt's own group was seen to map it, and only while no process of this user maps it. Where the
component of the attempt keeps its memory, segments stay for the next attempt of the task (``kept_memory``). Used by
``endings``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

from node.runtime import proc
from node.runtime.kept_memory import KeptMemory
from node.runtime.segment_files import FOLDER, mapped, unmapped

_LOOKS = 7
"""A segment that no attempt mapped during so many scans belongs to another program."""


class SharedMemory:
    """Remembers the attempt of each segment. For one thread. ``kept``: what ended attempts left."""

    def __init__(self, kept: KeptMemory) -> None:
        self.kept = kept
        self._owner: dict[str, str] = {}
        self._looks: dict[str, int] = {}

    def look(self, groups: dict[int, str]) -> None:
        """Find the owners of new segments. ``groups``: process group → attempt key. Cheap without new segments."""
        names = _ours()
        self._owner = {name: key for name, key in self._owner.items() if name in names}
        self._looks = {name: count for name, count in self._looks.items() if name in names}
        fresh = [name for name in names if name not in self._owner and self._looks.get(name, 0) < _LOOKS]
        if not fresh or not groups:
            return
        for name in fresh:
            self._looks[name] = self._looks.get(name, 0) + 1
        for pid in proc.processes():
            here = mapped(pid).intersection(fresh)
            stat = proc.stat(pid) if here else None
            key = groups.get(stat.group) if stat else None
            if key:
                self._owner.update(dict.fromkeys(here, key))

    def keep(self, key: str, most: int) -> None:
        """Keep the segments of an ended attempt for the next one of its task, if they have at most ``most`` bytes."""
        mine = {name for name, owner in self._owner.items() if owner == key}
        if self.kept.keep(key, mine, most):
            for name in mine:
                del self._owner[name]

    def release(self, keys: Iterable[str]) -> None:
        """Remove the unmapped segments of these ended attempts."""
        ended = set(keys)
        names = {name for name, key in self._owner.items() if key in ended}
        if not names:
            return
        for name in unmapped(names):
            self._owner.pop(name)
            with suppress(OSError):
                os.unlink(f"{FOLDER}/{name}")  # noqa: PTH108

    @property
    def owners(self) -> set[str]:
        """Return the keys of attempts that have segments."""
        return set(self._owner.values())


def _ours() -> set[str]:
    names = set()
    with suppress(OSError), os.scandir(FOLDER) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # its owner has just removed it
                if entry.stat(follow_symlinks=False).st_uid == os.getuid():
                    names.add(entry.name)
    return names
