"""Finds nodes for the tasks of one demand and allocates them. Called by ``Round``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from heapq import heappop, heappush

import numpy as np

from master.planning.candidates import Candidates
from master.planning.free_table import FreeTable
from master.planning.model import Demand, Placement, QueuedJob
from master.planning.need import Need
from master.planning.node_table import Ints, Mask
from master.planning.ranking import BaseScores, Ranking, length_of
from master.planning.topology import Topology

_LOOKED_AT, _NAMED = 64, 4
"""Slow nodes that are looked at, to say that others were preferred, and how many are named."""


class Finder:
    """Keeps the candidates of each need and policy between demands. ``placements``: what was allocated."""

    def __init__(self, free_table: FreeTable, topology: Topology) -> None:
        self.free_table = free_table
        self.ledger = free_table.ledger
        self.table = free_table.table
        self.topology = topology
        self.placements: list[Placement] = []
        self._booked: list[tuple[QueuedJob, Demand, int]] = []
        self._reported = 0
        self._base = BaseScores(free_table)
        self._candidates: dict[tuple[str, str, str, float, bool], tuple[Candidates, Ranking, Need]] = {}

    def place(
        self, job: QueuedJob, demand: Demand, most: int, within: Mask | None = None, *, fast: bool = False
    ) -> int:
        """Allocate up to ``most`` tasks on the nodes of ``within`` (None: all). Return the number allocated.

        ``fast``: whether faster nodes are preferred."""
        if most <= 0:
            return 0
        if within is not None or demand.spread is not None or demand.pack is not None:
            return self._place_by_topology(job, demand, most, within, fast)
        candidates, ranking, need = self._of(job, demand, fast)
        left = most
        for index, count in candidates.best(job.seconds, job.expected):
            times = min(count, left) if ranking.fills else 1
            self.book(job, demand, need, index, times)
            left -= times
            if not left:
                break
        return most - left

    def news(self) -> list[tuple[QueuedJob, Demand, int, Placement]]:
        """Return the placements since the last call. Must not be called while an allocation may still be undone."""
        reported, self._reported = self._reported, len(self.placements)
        return [
            (*booked, placement)
            for booked, placement in zip(self._booked[reported:], self.placements[reported:], strict=True)
        ]

    def forget(self, after: int) -> None:
        """Drop all placements except the first ``after``."""
        del self.placements[after:], self._booked[after:]

    def slower_than(
        self, job: QueuedJob, demand: Demand, chosen: Collection[str], within: Mask | None
    ) -> list[tuple[str, float]]:
        """Return some nodes, with speeds, that are slower than all ``chosen`` ones, and where a task fits, too."""
        table, slowness = self.table, self.table.slowness
        if slowness is None or not chosen:
            return []
        least = max(slowness[table.index_by_name[name]] for name in chosen)
        need = table.need(demand.shape)
        found: list[tuple[str, float]] = []
        for index in table.slowest[:_LOOKED_AT]:
            if slowness[index] <= least or len(found) == _NAMED:
                break
            if (
                (within is None or within[index])
                and table.is_eligible(demand.shape, index)
                and self.ledger.count(need, index, job.seconds, job.expected)
            ):
                found.append((table.nodes[index].name, table.nodes[index].speed))
        return found

    def _place_by_topology(self, job: QueuedJob, demand: Demand, most: int, within: Mask | None, fast: bool) -> int:
        need = self.table.need(demand.shape)
        ranking = Ranking(self._base, need, job.policy, job.metric, length_of(job.seconds), fast=fast)
        counts = self.topology.counts(need, job.seconds, within, job.expected)
        placed = self._placed_now(job, demand.component)
        if demand.pack is not None:
            whole = sum(each.count for each in job.demands if each.component == demand.component)
            domain = self.topology.packed_into(job, demand, counts, whole, placed)
            if domain is None:
                return 0
            counts = counts * domain
        most = min(most, int(np.minimum(counts, most).sum()))
        if demand.spread is not None:
            indexes = self.topology.spread(job, demand, counts, ranking.all(), most, placed)
        else:
            indexes = self._ranked(counts, ranking, most)
        for index, times in Counter(indexes).items():
            self.book(job, demand, need, index, times)
        return len(indexes)

    def _placed_now(self, job: QueuedJob, component: str) -> list[tuple[int, int]]:
        """Return (node index, number) of the component's tasks that were placed since the snapshot was taken.

        A component with ``min`` has two demands: the tasks that start together, and the others. The demands of a job
        are placed one after another.
        """
        found = []
        for (owner, demand, index), placement in zip(reversed(self._booked), reversed(self.placements), strict=True):
            if owner.id != job.id:
                break
            if demand.component == component:
                found.append((index, placement.count))
        return found

    def _ranked(self, counts: Ints, ranking: Ranking, most: int) -> list[int]:
        indexes = np.flatnonzero(counts)
        scores = ranking.all()
        order: list[int] = indexes[np.argsort(scores[indexes], kind="stable")].tolist()
        if ranking.fills:
            chosen: list[int] = []
            for index in order:
                chosen += [index] * min(int(counts[index]), most - len(chosen))
            return chosen
        step = ranking.step
        turns = [(float(scores[index]), index, int(counts[index])) for index in order]
        chosen = []
        while len(chosen) < most:
            score, index, left = heappop(turns)
            chosen.append(index)
            if left > 1:
                heappush(turns, (score + step, index, left - 1))
        return chosen

    def book(self, job: QueuedJob, demand: Demand, need: Need, index: int, times: int) -> None:
        devices = self.ledger.allocate(need, index, times, job.seconds, job.expected)
        node = self.table.nodes[index].name
        self.placements.append(Placement(job.id, demand.component, node, times, devices))
        self._booked.append((job, demand, index))

    def _of(self, job: QueuedJob, demand: Demand, fast: bool) -> tuple[Candidates, Ranking, Need]:
        length = length_of(job.seconds)
        key = (demand.shape.key, job.policy.value, job.metric, length, fast)
        found = self._candidates.get(key)
        if found is None:
            need = self.table.need(demand.shape)
            ranking = Ranking(self._base, need, job.policy, job.metric, length, fast=fast)
            found = self._candidates[key] = (Candidates(self.free_table, need, ranking), ranking, need)
        return found
