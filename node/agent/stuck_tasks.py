"""Tasks that do not end although they were killed: a process of theirs waits in the kernel (state D).

A share that hangs, a disk or a driver that does not answer: KILL has no effect until that wait ends. Used by the loop,
which says so to the master. Only /proc is read, and of it nothing that could wait for the process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from grass import clock
from grass.model.reasons import Reason, ReasonCode
from node.runtime import proc

AFTER_KILL = 5.0
"""Seconds after KILL that a task may take to end."""


class StuckTasks:
    """``told``, ``ended``: what happens to the attempts. ``look`` once in a while."""

    def __init__(self) -> None:
        self._due: dict[str, float] = {}

    def stop(self, key: str, grace: float) -> None:
        """It gets KILL in ``grace`` seconds, if not before."""
        due = clock.steady() + grace + AFTER_KILL
        self._due[key] = min(self._due.get(key, due), due)

    def ended(self, key: str) -> None:
        self._due.pop(key, None)

    def look(self, pids: Mapping[str, int]) -> dict[str, Reason]:
        """Why an attempt does not end, for each that should have. ``pids``: the first processes of what runs."""
        if not self._due:
            return {}
        now = clock.steady()
        overdue = {key: pids[key] for key, due in self._due.items() if due <= now and key in pids}
        found = ((key, next(_waiting(pid), None)) for key, pid in overdue.items())
        return {key: _reason(pid) for key, pid in found if pid is not None}


def _reason(pid: int) -> Reason:
    """It names no job: as the node's condition, users of other jobs read it, too."""
    name = proc.read(f"/proc/{pid}/comm").decode(errors="replace").strip()
    message = (
        f"process {pid} ({name}) of a task does not end after KILL, because it waits in the kernel (state D); "
        "it ends when that wait does: see what it reads or writes (share, disk, device), or reboot the node"
    )
    return Reason(ReasonCode.STUCK, message, {"pid": pid})


def _waiting(pid: int) -> Iterator[int]:
    """Of the process and its descendants: those of which a thread is in state D."""
    threads: list[Path] = []
    with suppress(OSError):
        threads = list(Path(f"/proc/{pid}/task").iterdir())
    if any(_state(thread) == b"D" for thread in threads):
        yield pid
    for thread in threads:
        for child in proc.read(f"{thread}/children").split():
            yield from _waiting(int(child))


def _state(thread: Path) -> bytes:
    return proc.read(f"{thread}/stat").rpartition(b")")[2].strip()[:1]
