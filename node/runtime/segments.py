"""Segments of System V that ended attempts left, where users are not isolated. Used by ``endings``.

A segment outlives its processes, and is counted for nobody then. The kernel names only the process that made it, and
only segments of memory have such a mark. So a segment is removed if a process of the attempt's own group was seen to
have made it, and only while no process uses it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from node.runtime import proc, system_v
from node.runtime.attempts import Attempt


class Segments:
    """Remembers the attempt of each segment. For one thread."""

    def __init__(self) -> None:
        self._owner: dict[int, str] = {}
        """Number of a segment → key of its attempt; empty: of another program."""

    def look(self, mains: Mapping[int, Attempt]) -> None:
        """Find the owners of new segments. ``mains``: pid of each attempt's first process → attempt."""
        here = {segment.number: segment for segment in system_v.segments() if segment.owner == os.getuid()}
        self._owner = {number: key for number, key in self._owner.items() if number in here}
        for number in here.keys() - self._owner.keys():
            self._owner[number] = _maker(here[number], mains)

    def release(self, key: str) -> None:
        """Remove the segments of an ended attempt that nobody uses."""
        if key not in self._owner.values():
            return
        for segment in system_v.segments():
            if self._owner.get(segment.number) == key and not segment.attached:
                system_v.remove(segment)

    @property
    def owners(self) -> set[str]:
        """Return the keys of attempts that have segments."""
        return {key for key in self._owner.values() if key}


def _maker(segment: system_v.Segment, mains: Mapping[int, Attempt]) -> str:
    stat = proc.stat(segment.creator)
    attempt = mains.get(stat.group if stat else segment.creator)
    # Before, another process may have had this pid.
    return attempt.key if attempt and attempt.started and segment.changed >= int(attempt.started) else ""
