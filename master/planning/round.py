"""One decision: every waiting job in turn. What finds no place is kept a place for, or at least a cause."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from grass.model.reasons import ReasonCode
from master.planning.futures import Futures
from master.planning.lanes import Lane, Lanes
from master.planning.ledger import Ledger, Mask
from master.planning.model import Demand, Eviction, Placement, QueuedJob, View
from master.planning.preemption import Preemption
from master.planning.quotas import Quotas
from master.planning.reservation import Reservation
from master.planning.shares import Shares
from master.planning.tasks import Finder
from master.planning.topology import Topology

Rest = tuple[Demand, int, ReasonCode]
"""A demand, how many of its tasks found no place, and the cause."""

MOST_KEPT = 5
LARGE = 256
"""For how many jobs places are kept; in a cluster of more than so many nodes for one. Only the first is promised that
nobody delays it; the next keep nodes of their own, because the order changes with what users have, and nodes emptied
for one of them are then not filled again. With more, fewer would pass. Each costs a look at all nodes, and on many
nodes it gains little."""
NODES_PER_PROMISE = 10
"""How many of the jobs for which places are kept go on to be before users who have had less by now. In a cluster of
fewer nodes it is one, and only while something is idle for it."""
_MOST_DOMAINS = 16
"""In how many domains a job that must stay together is tried."""


@dataclass(frozen=True)
class Left:
    """Tasks that found no place: of ``demand`` in each of ``jobs``, which are equal but for their age."""

    jobs: Sequence[QueuedJob]
    demand: Demand
    count: int
    cause: ReasonCode


class Round:
    """``head``: the first job that found no place, which no job behind it may delay; ``starts``: the jobs for which
    places are kept, and when they start at the latest, in seconds, where time limits tell."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.shares = Shares(view)
        self._lanes = Lanes(view.queue, self.shares.of)
        self.ledger = Ledger(view.nodes, self._lanes.custom(), view.allocations, view.now)
        self.quotas = Quotas(view, self.shares)
        self.topology = Topology(self.ledger, view.allocations)
        self.finder = Finder(self.ledger, self.topology)
        self.left: list[Left] = []
        self.head: QueuedJob | None = None
        self.starts: dict[str, float | None] = {}
        self._reserved: list[str] = []
        self._running = view.running
        self._futures: Futures | None = None
        self._preemption: Preemption | None = None

    def run(self) -> None:
        for job, lane in self._lanes.in_order():
            self._consider(job, lane)

    def placements(self) -> list[Placement]:
        return self.finder.placements

    def reserved(self) -> tuple[str, ...]:
        return tuple(self._reserved)

    def evictions(self) -> list[Eviction]:
        return self._preemption.evictions if self._preemption else []

    def _consider(self, job: QueuedJob, lane: Lane) -> None:
        if not job.begun and not self._has_turn(job):
            self._close(lane, [(demand, demand.count, ReasonCode.JOB_LIMIT) for demand in job.demands])
            return
        placed, left = self._together(job) if job.together is not None else self._place(job, None)
        if placed:
            self._running += not job.begun
        soon: dict[str, int] = {}
        roomless = [each for each in left if each[2] in (ReasonCode.NO_ROOM, ReasonCode.GANG)]
        if roomless:
            soon = self._make_room(job, roomless)
            left = [_preempting(each, soon) for each in left]
            self._keep_places(job, [each for each in left if each[2] in (ReasonCode.NO_ROOM, ReasonCode.GANG)])
        if placed or soon:
            self.left += [Left([job], *each) for each in left]
        else:
            self._close(lane, left)

    def _has_turn(self, job: QueuedJob) -> bool:
        """Whether one more job may begin. The head keeps its turn from all that may still run when it starts."""
        if self.view.level is None:
            return True
        running = self._running
        if self.head is not None and not self.head.begun:
            starts = self.starts[self.head.id]
            running += starts is None or job.seconds is None or job.seconds > starts
        return running < self.view.level

    def _place(self, job: QueuedJob, within: Mask | None) -> tuple[int, list[Rest]]:
        left: list[Rest] = []
        gang = [demand for demand in job.demands if demand.gang]
        placed = self._gang(job, gang, left, within) if gang else 0
        for demand in job.demands:
            if not demand.gang:
                placed += self._demand(job, demand, left, within)
        return placed, left

    def _together(self, job: QueuedJob) -> tuple[int, list[Rest]]:
        """In the first domain that takes all of the job, or the one that takes most now."""
        best: tuple[int, Mask] | None = None
        domains = self.topology.for_all(job)
        for within in domains[:_MOST_DOMAINS]:
            mark, booked = self.ledger.begin(), len(self.finder.placements)
            promised = self.quotas.promised(job.user)
            placed, left = self._place(job, within)
            if not left:
                self.ledger.commit()
                return placed, left
            self.ledger.roll_back(mark)
            self._forget(job, booked)
            self.quotas.restore(job.user, promised)
            if best is None or placed > best[0]:
                best = placed, within
        within = best[1] if best is not None else np.zeros(len(self.ledger.nodes), np.bool_)
        return self._place(job, within)

    def _forget(self, job: QueuedJob, booked: int) -> None:
        """Take back the placements after the first ``booked``."""
        shapes = {demand.component: demand.shape for demand in job.demands}
        for placement in self.finder.placements[booked:]:
            self.shares.add(job.user, shapes[placement.component].resources, -placement.count)
        self.finder.forget(booked)

    def _demand(self, job: QueuedJob, demand: Demand, left: list[Rest], within: Mask | None) -> int:
        allowed = self.quotas.room(job.user, demand.shape)
        placed = self.finder.place(job, demand, min(allowed, demand.count), within)
        self.shares.add(job.user, demand.shape.resources, placed)
        if placed < demand.count:
            cause = ReasonCode.QUOTA if placed == allowed else ReasonCode.NO_ROOM
            if cause is ReasonCode.QUOTA:
                self.quotas.promise(job.user, [replace(demand, count=1)])
            left.append((demand, demand.count - placed, cause))
        return placed

    def _gang(self, job: QueuedJob, gang: list[Demand], left: list[Rest], within: Mask | None) -> int:
        """All or nothing."""
        if not self.quotas.allows(job.user, gang):
            self.quotas.promise(job.user, gang)
            left += [(each, each.count, ReasonCode.QUOTA) for each in gang]
            return 0
        if not any(self._place_all(job, order, within) for order in self._orders(gang)):
            left += [(each, each.count, ReasonCode.GANG) for each in gang]
            return 0
        for demand in gang:
            self.shares.add(job.user, demand.shape.resources, demand.count)
        return sum(demand.count for demand in gang)

    def _orders(self, gang: list[Demand]) -> Iterator[list[Demand]]:
        """The largest tasks first; then those for which there is least room to spare.

        Not a search: a gang of several components may fit in a way that neither finds.
        """
        largest = sorted(gang, key=_size, reverse=True)
        yield largest
        if len(gang) > 1:
            tightest = sorted(gang, key=lambda demand: (self._spare(demand), demand.component))
            if tightest != largest:
                yield tightest

    def _spare(self, demand: Demand) -> int:
        """How many more tasks of it would fit now, if nothing else were placed."""
        return int(self.ledger.counts(self.ledger.need(demand.shape)).sum()) - demand.count

    def _place_all(self, job: QueuedJob, demands: list[Demand], within: Mask | None) -> bool:
        """All of them, or nothing."""
        mark, booked = self.ledger.begin(), len(self.finder.placements)
        for demand in demands:
            if self.finder.place(job, demand, demand.count, within) < demand.count:
                self.ledger.roll_back(mark)
                self.finder.forget(booked)
                return False
        self.ledger.commit()
        return True

    def _make_room(self, job: QueuedJob, left: list[Rest]) -> dict[str, int]:
        """Stop tasks of lower priority; answers how many of each component start once those have ended."""
        if self._preemption is None:
            self._preemption = Preemption(self._future())
        if not self._preemption.possible(job):
            return {}
        return self._preemption.make(job, [each[:2] for each in left], self._waits_within(job, left))

    def _keep_places(self, job: QueuedJob, left: list[Rest]) -> None:
        left = [each for each in left if self.ledger.large(self.ledger.need(each[0].shape))]
        if len(self.starts) >= (MOST_KEPT if len(self.ledger.nodes) <= LARGE else 1) or not left:
            return
        reservation = Reservation(self._future(), job.id)
        if reservation.make([each[:2] for each in left], self._waits_within(job, left)):
            self.head = self.head or job
            in_line = len(self._reserved) == len(self.starts)  # else it would come before one that is before it now
            self.starts[job.id] = reservation.starts
            most = len(self.ledger.nodes) // NODES_PER_PROMISE or int(reservation.idle)
            known = reservation.starts is not None  # else others, who have had less, might wait without end
            if known and (job.reservation_rank is not None or (in_line and len(self._reserved) < most)):
                self._reserved.append(job.id)
            for demand, count, _ in left:
                self.quotas.promise(job.user, [replace(demand, count=count)])

    def _waits_within(self, job: QueuedJob, left: list[Rest]) -> Mask | None:
        if job.together is not None:
            return self.topology.to_wait_for(job, None)
        packed = next((demand for demand, _, _ in left if demand.pack is not None), None)
        return self.topology.to_wait_for(job, packed) if packed is not None else None

    def _future(self) -> Futures:
        if self._futures is None:
            self._futures = Futures(self.ledger, self.view.allocations, self.view.now)
        self._futures.add(self.finder.news())
        return self._futures

    def _close(self, lane: Lane, left: list[Rest]) -> None:
        """Nothing of the job was placed, so none of its equals will be."""
        jobs = lane.close()
        self.left += [Left(jobs, *each) for each in left]


def _preempting(rest: Rest, soon: dict[str, int]) -> Rest:
    demand, count, cause = rest
    return (demand, count, ReasonCode.PREEMPTING) if soon.get(demand.component, 0) >= count else (demand, count, cause)


def _size(demand: Demand) -> tuple[int, int, int, str]:
    """The demands that are hardest to place come first."""
    wanted = demand.shape.resources
    return wanted.gpu, wanted.cpu, wanted.memory, demand.component
