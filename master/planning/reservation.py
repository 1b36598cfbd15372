"""A reservation on one node for a job that cannot start yet. Kept in ``Ledger.reservations``.

Used by ``futures``, ``ledger`` and ``reserver``.
"""

from __future__ import annotations

from dataclasses import dataclass

from master.planning.free_resources import FreeResources


@dataclass
class Reservation:
    """A task that still runs ``until`` seconds from now must fit into ``free``; a shorter task need not.

    ``job``: the id of the job that owns the reservation, if there is one owner. ``preempted``: the reserved resources
    become free when tasks that were told to stop have ended.
    """

    until: float
    free: FreeResources
    job: str = ""
    preempted: bool = False

    def limits(self, seconds: float | None) -> bool:
        """Return whether the reservation limits a task with this time limit (None: no limit)."""
        return seconds is None or seconds > self.until
