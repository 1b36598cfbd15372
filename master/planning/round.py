"""One decision: serves every waiting job in turn. A job that does not fit gets a reservation, or at least a cause.

Called by ``decide``; the only module that knows all the parts of the planner.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from grass.model.job import Policy
from grass.model.reasons import ReasonCode
from master.planning.fair_shares import FairShares
from master.planning.finder import Finder
from master.planning.free_table import FreeTable
from master.planning.futures import Futures
from master.planning.lanes import Lane, Lanes
from master.planning.ledger import Ledger
from master.planning.model import Demand, Eviction, Placement, Preferred, QueuedJob, Snapshot
from master.planning.node_table import Mask, NodeTable
from master.planning.preemption import Preemption
from master.planning.quotas import Quotas
from master.planning.reserver import Reserver
from master.planning.topology import Topology

Cause = Literal[
    ReasonCode.GANG,
    ReasonCode.JOB_LIMIT,
    ReasonCode.NO_FREE_RESOURCES,
    ReasonCode.PREEMPTING,
    ReasonCode.QUOTA,
]
"""The round's knowledge of why tasks were not placed; ``Explainer`` finds the exact reason."""

MOST_RESERVATIONS = 5
"""Most jobs with a reservation.

Only the first job is guaranteed that no job delays it. The other jobs get a reservation because fair share changes the
order of jobs, and nodes that were emptied for one of them must not be filled again. More reservations would leave less
for backfilling. Each reservation costs a scan of all nodes.
"""
LARGE = 256
"""In a cluster with more nodes than this, only one job gets a reservation: more reservations gain little there."""
NODES_PER_RESERVATION = 10
"""One job per this number of nodes keeps its reservation even if fair share has since moved other users before it.

In a smaller cluster, one job keeps its reservation, and only while resources are idle for that job.
"""
_MOST_DOMAINS = 16
"""Most domains to try for a job whose tasks must be together."""


@dataclass(frozen=True)
class Rest:
    """The unplaced tasks of one demand of a job."""

    demand: Demand
    count: int
    cause: Cause

    @property
    def lacks_resources(self) -> bool:
        """Return whether a preemption or a reservation could help."""
        return self.cause in (ReasonCode.NO_FREE_RESOURCES, ReasonCode.GANG)


@dataclass(frozen=True)
class Left:
    """Unplaced tasks of ``demand`` in each of ``jobs``, which differ only in their queue position."""

    jobs: Sequence[QueuedJob]
    demand: Demand
    count: int
    cause: Cause


class Round:
    """State of one decision. ``head``: the first job that did not fit, which no later job may delay.

    ``starts``: id of each job with a reservation → seconds until the job starts at the latest (None: unknown). Those of
    ``by_estimates`` come from estimates.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.shares = FairShares(snapshot)
        self._lanes = Lanes(snapshot.queue, self.shares.fair_share)
        self.table = NodeTable(snapshot.nodes, self._lanes.custom())
        self.ledger = Ledger(self.table, snapshot.allocations, snapshot.now)
        self.free_table = FreeTable(self.ledger)
        self.quotas = Quotas(snapshot, self.shares)
        self.topology = Topology(self.free_table, snapshot.allocations)
        self.finder = Finder(self.free_table, self.topology)
        self.left: list[Left] = []
        self.head: QueuedJob | None = None
        self._head_has_turn = False
        self.starts: dict[str, float | None] = {}
        self.by_estimates: set[str] = set()
        self.preferred: dict[tuple[str, str], Preferred] = {}
        self._reserved: list[str] = []
        self._running = snapshot.running
        self._futures: Futures | None = None
        self._preemption: Preemption | None = None

    def run(self) -> None:
        for job, lane in self._lanes.in_order():
            self._consider(job, lane)

    def placements(self) -> list[Placement]:
        return self.finder.placements

    def reserved(self) -> tuple[str, ...]:
        return tuple(self._reserved)

    def estimated(self) -> dict[str, float | None]:
        return {job: starts if job in self.by_estimates else None for job, starts in self.starts.items()}

    def evictions(self) -> list[Eviction]:
        return self._preemption.evictions if self._preemption else []

    def _consider(self, job: QueuedJob, lane: Lane) -> None:
        if not job.begun and not self._has_turn(job):
            self._close(lane, [Rest(demand, demand.count, ReasonCode.JOB_LIMIT) for demand in job.demands])
            return
        if not job.begun and self.quotas.too_many_files(job.user):
            self._close(lane, [Rest(demand, demand.count, ReasonCode.QUOTA) for demand in job.demands])
            return
        placed, left = self._together(job) if job.together is not None else self._place(job, None)
        soon: dict[str, int] = {}
        unplaced = [rest for rest in left if rest.lacks_resources]
        if unplaced:
            soon = self._preempt(job, unplaced)
            left = [_with_preempting(rest, soon) for rest in left]
            wait = [rest for rest in left if rest.lacks_resources]
            self._reserve(job, wait, has_turn=job.begun or placed > 0 or bool(soon))
        if placed or soon:
            self._running += not job.begun
            self.left += [Left([job], rest.demand, rest.count, rest.cause) for rest in left]
        else:
            self._close(lane, left)

    def _has_turn(self, job: QueuedJob) -> bool:
        """Return whether one more job may begin.

        A job that may still run at the head's start must leave the head a turn.
        """
        if self.snapshot.job_limit is None:
            return True
        running = self._running
        if self.head is not None and not self._head_has_turn:
            starts = self.starts[self.head.id]
            seconds = job.seconds
            if seconds is None and self.head.id in self.by_estimates:
                seconds = job.expected
            running += starts is None or seconds is None or seconds > starts
        return running < self.snapshot.job_limit

    def _place(self, job: QueuedJob, within: Mask | None) -> tuple[int, list[Rest]]:
        left: list[Rest] = []
        gang = [demand for demand in job.demands if demand.gang]
        placed = self._gang(job, gang, left, within) if gang else 0
        waiting = {rest.demand.component for rest in left}
        for demand in job.demands:
            if not demand.gang and demand.component not in waiting:  # a component's gang must be placed first
                placed += self._demand(job, demand, left, within)
        return placed, left

    def _together(self, job: QueuedJob) -> tuple[int, list[Rest]]:
        """Place a job in the first domain in which the whole job fits, or in the domain in which most fits now."""
        best: tuple[int, Mask] | None = None
        domains = self.topology.domains_for(job)
        for within in domains[:_MOST_DOMAINS]:
            mark, booked = self.ledger.begin(), len(self.finder.placements)
            reserved = self.quotas.reserved(job.user)
            placed, left = self._place(job, within)
            if not left:
                self.ledger.commit()
                return placed, left
            self.ledger.roll_back(mark)
            self._forget(job, booked)
            self.quotas.restore(job.user, reserved)
            if best is None or placed > best[0]:
                best = placed, within
        within = best[1] if best is not None else np.zeros(len(self.table), np.bool_)
        return self._place(job, within)

    def _forget(self, job: QueuedJob, booked: int) -> None:
        """Undo the placements after the first ``booked``."""
        shapes = {demand.component: demand.shape for demand in job.demands}
        for placement in self.finder.placements[booked:]:
            self.shares.add(job.user, shapes[placement.component].resources, -placement.count)
        self.finder.forget(booked)

    def _demand(self, job: QueuedJob, demand: Demand, left: list[Rest], within: Mask | None) -> int:
        allowed = self.quotas.remaining(job.user, demand.shape)
        placed = self.finder.place(job, demand, min(allowed, demand.count), within)
        self.shares.add(job.user, demand.shape.resources, placed)
        if placed < demand.count:
            cause: Cause = ReasonCode.QUOTA if placed == allowed else ReasonCode.NO_FREE_RESOURCES
            if cause is ReasonCode.QUOTA:
                self.quotas.reserve(job.user, [replace(demand, count=1)])
            left.append(Rest(demand, demand.count - placed, cause))
        return placed

    def _gang(self, job: QueuedJob, gang: list[Demand], left: list[Rest], within: Mask | None) -> int:
        """Place the whole gang, or nothing."""
        if not self.quotas.allows(job.user, gang):
            self.quotas.reserve(job.user, gang)
            left += [Rest(demand, demand.count, ReasonCode.QUOTA) for demand in gang]
            return 0
        booked = len(self.finder.placements)
        fast = self._prefers_fast(job) and self._place_gang(job, gang, within, fast=True)
        in_any_order = len(gang) == 1 and gang[0].spread is None and gang[0].pack is None
        if not fast and ((in_any_order and self._prefers_fast(job)) or not self._place_gang(job, gang, within)):
            left += [Rest(demand, demand.count, ReasonCode.GANG) for demand in gang]
            return 0
        if fast:
            self._note_preferred(job, gang, booked, within)
        for demand in gang:
            self.shares.add(job.user, demand.shape.resources, demand.count)
        return sum(demand.count for demand in gang)

    def _prefers_fast(self, job: QueuedJob) -> bool:
        return job.policy is Policy.BEST_FIT and self.table.slowness is not None

    def _place_gang(self, job: QueuedJob, gang: list[Demand], within: Mask | None, *, fast: bool = False) -> bool:
        return any(self._place_all(job, order, within, fast) for order in self._orders(gang))

    def _note_preferred(self, job: QueuedJob, gang: list[Demand], booked: int, within: Mask | None) -> None:
        """Note which nodes of the placements after the first ``booked`` were preferred to slower ones."""
        for demand in gang:
            here = [each.node for each in self.finder.placements[booked:] if each.component == demand.component]
            nodes = tuple(sorted({*here}))
            if slower := self.finder.slower_than(job, demand, nodes, within):
                self.preferred[job.id, demand.component] = Preferred(nodes, tuple(slower))

    def _orders(self, gang: list[Demand]) -> Iterator[list[Demand]]:
        """Yield the orders in which to try a gang: largest tasks first; then least spare capacity first.

        This is not a search: a gang of several components may fit in a way that neither order finds.
        """
        largest = sorted(gang, key=_size, reverse=True)
        yield largest
        if len(gang) > 1:
            tightest = sorted(gang, key=lambda demand: (self._spare(demand), demand.component))
            if tightest != largest:
                yield tightest

    def _spare(self, demand: Demand) -> int:
        """Return how many more tasks of the demand would fit now, if nothing else were placed."""
        return int(self.free_table.counts(self.table.need(demand.shape)).sum()) - demand.count

    def _place_all(self, job: QueuedJob, demands: list[Demand], within: Mask | None, fast: bool) -> bool:
        """Place all of the demands, or nothing."""
        mark, booked = self.ledger.begin(), len(self.finder.placements)
        for demand in demands:
            if self.finder.place(job, demand, demand.count, within, fast=fast) < demand.count:
                self.ledger.roll_back(mark)
                self.finder.forget(booked)
                return False
        self.ledger.commit()
        return True

    def _preempt(self, job: QueuedJob, left: list[Rest]) -> dict[str, int]:
        """Stop tasks of lower priority.

        Return how many tasks of each component start once the stopped tasks have ended.
        """
        if self._preemption is None:
            self._preemption = Preemption(self._future())
        if not self._preemption.possible(job):
            return {}
        return self._preemption.make(job, _counts(left), self._reservation_domain(job, left))

    def _reserve(self, job: QueuedJob, left: list[Rest], *, has_turn: bool) -> None:
        left = [rest for rest in left if self.table.fits_empty(self.table.need(rest.demand.shape))]
        if len(self.starts) >= (MOST_RESERVATIONS if len(self.table) <= LARGE else 1) or not left:
            return
        reserver = Reserver(self._future(), job.id, trusts=job.id not in self.snapshot.late)
        if reserver.make(_counts(left), self._reservation_domain(job, left)):
            if self.head is None:
                self.head, self._head_has_turn = job, has_turn
            in_order = len(self._reserved) == len(self.starts)  # otherwise this job would overtake a job
            self.starts[job.id] = reserver.starts
            if reserver.starts is not None and reserver.estimated:
                self.by_estimates.add(job.id)
            most = len(self.table) // NODES_PER_RESERVATION or int(reserver.idle)
            known = reserver.starts is not None  # otherwise users with less past use might wait forever
            if known and (job.reservation_rank is not None or (in_order and len(self._reserved) < most)):
                self._reserved.append(job.id)
            for rest in left:
                self.quotas.reserve(job.user, [replace(rest.demand, count=rest.count)])

    def _reservation_domain(self, job: QueuedJob, left: list[Rest]) -> Mask | None:
        if job.together is not None:
            return self.topology.to_reserve(job, None)
        packed = next((rest.demand for rest in left if rest.demand.pack is not None), None)
        return self.topology.to_reserve(job, packed) if packed is not None else None

    def _future(self) -> Futures:
        if self._futures is None:
            self._futures = Futures(self.free_table, self.snapshot.allocations, self.snapshot.now)
        self._futures.add(self.finder.news())
        return self._futures

    def _close(self, lane: Lane, left: list[Rest]) -> None:
        """Close the lane: no task of the job was placed, so no task of equal jobs will be placed."""
        jobs = lane.close()
        self.left += [Left(jobs, rest.demand, rest.count, rest.cause) for rest in left]


def _with_preempting(rest: Rest, soon: dict[str, int]) -> Rest:
    """Change the cause if all tasks of ``rest`` start once preempted tasks have ended (``soon``: by component)."""
    return replace(rest, cause=ReasonCode.PREEMPTING) if soon.get(rest.demand.component, 0) >= rest.count else rest


def _counts(left: list[Rest]) -> list[tuple[Demand, int]]:
    return [(rest.demand, rest.count) for rest in left]


def _size(demand: Demand) -> tuple[int, int, int, str]:
    """Return a sort key: the demands that are hardest to place are largest."""
    wanted = demand.shape.resources
    return wanted.gpu, wanted.cpu, wanted.memory, demand.component
