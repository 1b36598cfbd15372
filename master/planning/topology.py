"""Placement that depends on the nodes of the job's other tasks: spread, pack, together.

For ``Round`` and ``Finder``. Used by ``finder`` and ``round``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from heapq import heapify, heappop, heappush

import numpy as np

from master.planning.free_resources import UNLIMITED
from master.planning.free_table import FreeTable
from master.planning.model import Allocation, Demand, QueuedJob
from master.planning.need import Need
from master.planning.node_table import Floats, Ints, Mask


class Topology:
    """Finds the domains in which tasks may be placed.

    ``allocations``: of all tasks that have resources; called only for jobs with such constraints.
    """

    def __init__(self, free_table: FreeTable, allocations: Iterable[Allocation]) -> None:
        self._free_table = free_table
        self._ledger = free_table.ledger
        self._table = free_table.table
        self._allocations = allocations
        self._by_job: dict[str, list[Allocation]] | None = None

    def counts(self, need: Need, seconds: float | None, within: Mask | None, expected: float | None = None) -> Ints:
        """Return how many tasks fit on each node now beside the reservations for other jobs."""
        counts = self._free_table.counts(need)
        for index in self._ledger.reservations:
            if counts[index]:
                counts[index] = self._ledger.count(need, index, seconds, expected)
        if within is not None:
            counts = counts * within
        return counts

    def spread(
        self, job: QueuedJob, demand: Demand, counts: Ints, scores: Floats, most: int, placed: list[tuple[int, int]]
    ) -> list[int]:
        """Return each task's node index: the domain with the fewest tasks, of those where one more fits.

        ``placed``: (node index, number) of the component's tasks that this plan has placed before.
        """
        domain, _ = self._table.domains(demand.spread or 0)
        taken: Counter[int] = Counter()
        for index, count in [*self._placed(job, demand.component), *placed]:
            taken[int(domain[index])] += count
        lines: dict[int, list[int]] = {}
        fitting = np.flatnonzero(counts)
        for index in fitting[np.argsort(scores[fitting], kind="stable")][::-1].tolist():
            lines.setdefault(int(domain[index]), []).append(index)
        turns = [(taken[number], float(scores[line[-1]]), number) for number, line in lines.items()]
        heapify(turns)
        left: dict[int, int] = {}
        chosen: list[int] = []
        while turns and len(chosen) < most:
            tasks, score, number = heappop(turns)
            line = lines[number]
            index = line[-1]
            chosen.append(index)
            left[index] = left.get(index, int(counts[index])) - 1
            if not left[index]:
                line.pop()
            if line:
                heappush(turns, (tasks + 1, score, number))
        return chosen

    def packed_into(
        self, job: QueuedJob, demand: Demand, counts: Ints, most: int, placed: list[tuple[int, int]]
    ) -> Mask | None:
        """Return the one domain for all tasks of a component; None: no task fits anywhere.

        In order of preference: the domain where some tasks already run, the tightest domain in which all tasks fit, the
        domain in which most tasks fit.
        """
        domain, _ = self._table.domains(demand.pack or 0)
        for index, _ in [*self._placed(job, demand.component), *placed]:
            return _is(domain, int(domain[index]))
        free = _sums(domain, np.minimum(counts, most))
        if not free.any():
            return None
        whole = np.flatnonzero(free >= most)
        best = whole[np.argmin(free[whole])] if len(whole) else np.argmax(free)
        return _is(domain, int(best))

    def domains_for(self, job: QueuedJob) -> list[Mask]:
        """Return the domains for a job whose tasks must be together, in the order to try them.

        The only domain is the one where some tasks already run. Otherwise, domains in which most tasks fit now come
        first.
        """
        domain, names = self._table.domains(job.together or 0)
        for index, _ in self._placed(job, None):
            return [_is(domain, int(domain[index]))]
        now = np.zeros(len(names), np.int64)
        tight = np.zeros(len(names), np.int64)
        ever = np.ones(len(names), np.bool_)
        for demand in job.demands:
            need = self._table.need(demand.shape)
            free = _sums(domain, np.minimum(self.counts(need, job.seconds, None, job.expected), UNLIMITED >> 8))
            now += np.minimum(free, demand.count)
            tight += free
            ever &= _sums(domain, self._table.capacities(need)) >= demand.count
        order = sorted(np.flatnonzero(now).tolist(), key=lambda number: (not ever[number], -now[number], tight[number]))
        return [_is(domain, number) for number in order]

    def to_reserve(self, job: QueuedJob, demand: Demand | None) -> Mask | None:
        """Return the domain to reserve for a blocked job: of the large enough domains, the one where most fit now."""
        level = job.together if demand is None else demand.pack
        if level is None:
            return None
        domain, names = self._table.domains(level)
        for index, _ in self._placed(job, None if demand is None else demand.component):
            return _is(domain, int(domain[index]))
        now = np.zeros(len(names), np.int64)
        ever = np.ones(len(names), np.bool_)
        for each in job.demands if demand is None else [demand]:
            need = self._table.need(each.shape)
            now += np.minimum(_sums(domain, np.minimum(self._free_table.counts(need), each.count)), each.count)
            ever &= _sums(domain, np.minimum(self._table.capacities(need), each.count)) >= (
                each.count if each.gang else 1
            )
        best = min(range(len(names)), key=lambda number: (not ever[number], -now[number], number))
        return _is(domain, best)

    def _placed(self, job: QueuedJob, component: str | None) -> list[tuple[int, int]]:
        """Return (node index, number) of the allocated tasks of a job, or of one of its components."""
        if not job.begun:
            return []
        if self._by_job is None:
            self._by_job = {}
            for allocation in self._allocations:
                self._by_job.setdefault(allocation.job, []).append(allocation)
        indexes = self._table.index_by_name
        return sorted(
            (indexes[each.node], each.count)
            for each in self._by_job.get(job.id, ())
            if each.node in indexes and component in (None, each.component)
        )


def _sums(domain: Ints, amounts: Ints) -> Ints:
    sums: Ints = np.bincount(domain, weights=amounts).astype(np.int64)
    return sums


def _is(domain: Ints, number: int) -> Mask:
    mask: Mask = domain == number
    return mask
