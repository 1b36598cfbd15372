"""What is reserved on one node for a job that cannot start yet. Kept in ``Ledger.reservations``."""

from __future__ import annotations

from dataclasses import dataclass

from master.planning.free_resources import FreeResources


@dataclass
class Reservation:
    """A task that still runs ``until`` seconds from now has to fit into ``free``; a shorter one may ignore it.

    ``job``: the id of the job that holds the reservation, where it is one job. ``preempted``: the reservation is of
    what becomes free when tasks that were told to stop have ended.
    """

    until: float
    free: FreeResources
    job: str = ""
    preempted: bool = False

    def limits(self, seconds: float | None) -> bool:
        """Whether it limits a task with this time limit (None: no limit)."""
        return seconds is None or seconds > self.until
