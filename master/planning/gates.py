"""What is promised on a node to a job that cannot start yet: others get only what is left beside the promise."""

from __future__ import annotations

from dataclasses import dataclass

from master.planning.room import Room


@dataclass
class Gate:
    """Who may still be there after ``until`` seconds has to fit into ``room``; who is gone by then may ignore it.

    ``job``: to whom it is promised, where that is one job. ``soon``: the promise is of what comes free when tasks that
    were told to stop have ended.
    """

    until: float
    room: Room
    job: str = ""
    soon: bool = False

    def holds(self, seconds: float | None) -> bool:
        """For a task that takes ``seconds`` at most (None: nobody knows)."""
        return seconds is None or seconds > self.until
