"""The memory of attempts with several processes, each page counted once. Used by ``task_processes``, in its thread.

The kernel knows the part of each process in the pages that it shares (PSS), but takes time to add it up. So readings
take turns, and their time is bounded. Between two readings of an attempt, its part is assumed not to change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from grass.lines import lines_of
from grass.system import clock
from node.runtime import proc

ALLOWED = 0.005
"""Seconds after which a scan begins no more readings."""
LONGEST_PART = 1 / 400
"""Most of the time that readings take: after a long one, the next scans read nothing."""


class SharedPages:
    """Remembers which part of its processes' resident memory each attempt has, and when that was read.

    ``longest_part``: most of the time that readings take."""

    def __init__(self, longest_part: float = LONGEST_PART) -> None:
        self._longest_part = longest_part
        self._parts: dict[str, float] = {}
        self._read_at: dict[str, float] = {}
        self._free_at = 0.0

    def memory(self, attempts: Mapping[str, Mapping[int, int]]) -> dict[str, int]:
        """Return the bytes of each attempt. ``attempts``: resident bytes of its processes, by pid.

        Until an attempt with several processes was read, its largest one counts: a peak is never taken back.
        """
        several = {name: resident for name, resident in attempts.items() if len(resident) > 1}
        self._parts = {name: part for name, part in self._parts.items() if name in several}
        self._read_at = {name: at for name, at in self._read_at.items() if name in several}
        self._read(several)
        return {name: self._of(name, resident.values()) for name, resident in attempts.items()}

    def _of(self, name: str, resident: Iterable[int]) -> int:
        part = self._parts.get(name)
        return max(resident, default=0) if part is None else round(part * sum(resident))

    def _read(self, several: Mapping[str, Mapping[int, int]]) -> None:
        begun = now = clock.steady()
        if now < self._free_at:
            return
        for name in sorted(several, key=lambda name: self._read_at.get(name, 0.0)):
            if now - begun > ALLOWED:
                break
            self._parts[name], self._read_at[name] = _part(several[name]), now
            now = clock.steady()
        self._free_at = begun + (now - begun) / self._longest_part


def _part(resident: Mapping[int, int]) -> float:
    """Return the part of the processes' resident memory that is theirs alone. Of those that cannot be read, all is."""
    own = {pid: _proportional(pid) for pid in resident}
    total = sum(size for pid, size in resident.items())
    counted = sum(size if (part := own[pid]) is None else min(size, part) for pid, size in resident.items())
    return counted / total if total else 1.0


def _proportional(pid: int) -> int | None:
    """Return its resident bytes, each shared page divided by the number of processes that share it. None: not known."""
    for line in lines_of(proc.read(f"/proc/{pid}/smaps_rollup")):
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) * 1024
    return None
