"""Tasks that do not end after KILL, because one of their processes waits in the kernel (state D).

The cause is a share, a disk or a driver that does not answer: KILL has no effect until it does. Used by
``this_machine``; the loop reports it to the master. Reads only those files in /proc that never wait for the process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from grass.model.reasons import Reason, ReasonCode
from grass.system import clock
from node.runtime import proc

AFTER_KILL = 5.0
"""Seconds after KILL that a task may take to end."""


class StuckTasks:
    """The caller reports stops and ends, and calls ``look`` with each heartbeat."""

    def __init__(self) -> None:
        self._due: dict[str, float] = {}

    def stop(self, key: str, grace: float) -> None:
        """Note that the attempt gets KILL in ``grace`` seconds at the latest."""
        due = clock.steady() + grace + AFTER_KILL
        self._due[key] = min(self._due.get(key, due), due)

    def forget(self, key: str) -> None:
        self._due.pop(key, None)

    def look(self, pids: Mapping[str, int]) -> dict[str, Reason]:
        """Return why attempts that should have ended have not. ``pids``: attempt key → its first process."""
        if not self._due:
            return {}
        now = clock.steady()
        overdue = {key: pids[key] for key, due in self._due.items() if due <= now and key in pids}
        found = ((key, next(_waiting(pid), None)) for key, pid in overdue.items())
        return {key: _reason(pid) for key, pid in found if pid is not None}


def _reason(pid: int) -> Reason:
    """Return the reason. It names no job, because users of other jobs see it as the node's condition."""
    name = proc.read(f"/proc/{pid}/comm").decode(errors="replace").strip()
    message = (
        f"process {pid} ({name}) of a task does not end after KILL, because it waits in the kernel (state D); "
        "check the share, disk or device that it uses, or reboot the node"
    )
    return Reason(ReasonCode.STUCK, message, {"pid": pid})


def _waiting(pid: int) -> Iterator[int]:
    """Yield the process and its descendants that have a thread in state D."""
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
