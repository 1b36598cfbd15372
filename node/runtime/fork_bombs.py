"""Which attempts have reached their limit of processes and still try to start more, from the kernel's control groups.

Each try copies a process in the kernel, and thousands that try again and again hold up the forks of everybody on the
machine for a minute and more. Used by ``docker.runtime`` and ``isolation.groups``.
"""

from __future__ import annotations

import signal

from grass.model.reasons import Reason, ReasonCode
from node.runtime import proc

MOST_REFUSED = 1_000
"""Processes that an attempt may try to start in vain between two looks."""


class ForkBombs:
    """What each group was refused when it was last looked at."""

    def __init__(self) -> None:
        self._refused: dict[str, int] = {}

    def is_one(self, group: str) -> bool:
        """Return whether this is a group of a fork bomb. ``group``: its folder with ``pids.events``. To be asked every
        second or half second.

        The first look tells nothing: the kernel counts since the group was made, which may be long ago.
        """
        words = proc.read(f"{group}/pids.events").decode().split()
        refused = int(words[words.index("max") + 1]) if "max" in words else 0
        before = self._refused.get(group, refused)
        self._refused[group] = refused
        return refused - before > MOST_REFUSED

    def forget(self, group: str) -> None:
        self._refused.pop(group, None)


def why_killed(most: int) -> Reason:
    """Return why an attempt was killed. ``most``: its limit of processes."""
    message = f"killed: it reached its limit of {most:,} processes, and went on trying to start more"
    return Reason(ReasonCode.SIGNAL, message, {"signal": signal.SIGKILL.value})
