"""One decision: every waiting job in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from grass.model.reasons import ReasonCode
from master.planning.lanes import Lane, Lanes
from master.planning.ledger import Ledger
from master.planning.model import Demand, Eviction, Placement, QueuedJob, Shape, View
from master.planning.quotas import Quotas
from master.planning.shares import Shares
from master.planning.tasks import Finder


@dataclass(frozen=True)
class Left:
    """Tasks that found no place: of ``demand`` in each of ``jobs``, which are equal but for their age."""

    jobs: Sequence[QueuedJob]
    demand: Demand
    count: int
    cause: ReasonCode


class Round:
    def __init__(self, view: View) -> None:
        self.view = view
        self.ledger = Ledger(view.nodes, _shapes(view))
        self.shares = Shares(view)
        self.quotas = Quotas(view, self.shares)
        self.finder = Finder(self.ledger)
        self.evictions: list[Eviction] = []
        self.left: list[Left] = []
        self._running = view.running

    def run(self) -> None:
        for job, lane in Lanes(self.view.queue, self.shares.of).in_order():
            self._consider(job, lane)

    def placements(self) -> list[Placement]:
        return self.finder.placements

    def _consider(self, job: QueuedJob, lane: Lane) -> None:
        level = self.view.level
        if not job.begun and level is not None and self._running >= level:
            self._close(job, lane, [(demand, demand.count, ReasonCode.JOB_LIMIT) for demand in job.demands])
            return
        left: list[tuple[Demand, int, ReasonCode]] = []
        gang = [demand for demand in job.demands if demand.gang]
        placed = self._gang(job, gang, left) if gang else 0
        for demand in job.demands:
            if not demand.gang:
                placed += self._demand(job, demand, left)
        if placed:
            self._running += not job.begun
            self.left += [Left([job], *each) for each in left]
        else:
            self._close(job, lane, left)

    def _demand(self, job: QueuedJob, demand: Demand, left: list[tuple[Demand, int, ReasonCode]]) -> int:
        allowed = self.quotas.room(job.user, demand.shape)
        placed = self.finder.place(job, demand, min(allowed, demand.count))
        self.shares.add(job.user, demand.shape.resources, placed)
        if placed < demand.count:
            cause = ReasonCode.QUOTA if placed == allowed else ReasonCode.NO_ROOM
            one = replace(demand, count=1)
            if cause is ReasonCode.QUOTA and self.quotas.could(job.user, [one]):
                self.quotas.promise(job.user, [one])
            left.append((demand, demand.count - placed, cause))
        return placed

    def _gang(self, job: QueuedJob, gang: list[Demand], left: list[tuple[Demand, int, ReasonCode]]) -> int:
        """All or nothing."""
        if not self.quotas.allows(job.user, gang):
            if self.quotas.could(job.user, gang):
                self.quotas.promise(job.user, gang)
            left += [(each, each.count, ReasonCode.QUOTA) for each in gang]
            return 0
        self.ledger.begin()
        booked = len(self.finder.placements)
        for demand in sorted(gang, key=_size, reverse=True):
            if self.finder.place(job, demand, demand.count) < demand.count:
                self.ledger.roll_back()
                del self.finder.placements[booked:]
                left += [(each, each.count, ReasonCode.GANG) for each in gang]
                return 0
        self.ledger.commit()
        for demand in gang:
            self.shares.add(job.user, demand.shape.resources, demand.count)
        return sum(demand.count for demand in gang)

    def _close(self, job: QueuedJob, lane: Lane, left: list[tuple[Demand, int, ReasonCode]]) -> None:
        """Nothing of the job was placed, so none of its equals will be."""
        jobs = [job, *lane.rest]
        lane.next = len(lane.jobs)
        self.left += [Left(jobs, *each) for each in left]


def _size(demand: Demand) -> tuple[int, int, int, str]:
    """The demands that are hardest to place come first."""
    wanted = demand.shape.resources
    return wanted.gpu, wanted.cpu, wanted.memory, demand.component


def _shapes(view: View) -> list[Shape]:
    return list({demand.shape.key: demand.shape for job in view.queue for demand in job.demands}.values())
