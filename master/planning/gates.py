"""What is promised on a node to a job that cannot start yet: others get only what is left beside the promise."""

from __future__ import annotations

from dataclasses import dataclass

from master.planning.room import Room


@dataclass
class Gate:
    """Who may still be there after ``until`` seconds has to fit into ``room``; who is gone by then may ignore it."""

    until: float
    room: Room

    def holds(self, seconds: float | None) -> bool:
        """For a task that takes ``seconds`` at most (None: nobody knows)."""
        return seconds is None or seconds > self.until
