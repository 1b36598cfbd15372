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
    become free when tasks that were told to stop have ended. ``estimated``: ``until`` comes from an estimate, so the
    estimate of a task without a time limit decides, too.
    """

    until: float
    free: FreeResources
    job: str = ""
    preempted: bool = False
    estimated: bool = False

    def limits(self, seconds: float | None, expected: float | None = None) -> bool:
        """Return whether the reservation limits a task with this time limit and estimate (None: there is none)."""
        if seconds is None and self.estimated:
            seconds = expected
        return seconds is None or seconds > self.until
