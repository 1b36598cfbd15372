"""Chooses tasks of lower priority to stop for a job that does not fit: as few as possible, only if the job then fits.

Called by ``Round``. Tasks that are being stopped already count as free soon, so nothing is stopped twice for the same
need. Part of a gang is useless, so a job with a gang is stopped whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations

from master.planning.free_resources import FreeResources
from master.planning.futures import Futures
from master.planning.model import Allocation, Demand, DeviceShares, Eviction, QueuedJob, Shape
from master.planning.need import Need
from master.planning.node_table import Mask

_FEW = 12
"""Most kinds of victims on one node for which pairs are tried before the greedy choice."""


@dataclass
class Victims:
    """One task or one gang to stop. ``parts``: (node index, allocation, number of its tasks, first of these tasks)."""

    priority: int
    parts: list[tuple[int, Allocation, int, int]] = field(default_factory=list)

    @property
    def tasks(self) -> int:
        return sum(count for _, _, count, _ in self.parts)


class Preemption:
    """One instance for a plan: what was chosen for one job is gone for the next one."""

    def __init__(self, futures: Futures) -> None:
        self._futures = futures
        self._ledger = futures.ledger
        self.evictions: list[Eviction] = []
        self._gone: defaultdict[int, set[int]] = defaultdict(set)  # id of an Allocation → its evicted tasks
        self._gangs: defaultdict[str, Victims] = defaultdict(lambda: Victims(0))
        self._candidates: list[int] = []
        self._lowest: int | None = None
        for index, here in futures.allocations.items():
            found = [allocation for allocation in here if allocation.preemptible and not allocation.stopping]
            if found:
                self._candidates.append(index)
                lowest = min(allocation.priority for allocation in found)
                self._lowest = lowest if self._lowest is None else min(self._lowest, lowest)
            for allocation in found:
                if allocation.gang:
                    self._gangs[allocation.job].priority = allocation.priority
                    self._gangs[allocation.job].parts.append((index, allocation, allocation.count, 0))
        self._candidates.sort()

    def possible(self, job: QueuedJob) -> bool:
        return bool(self._futures.stopping) or (self._lowest is not None and self._lowest < job.priority)

    def make(self, job: QueuedJob, demands: list[tuple[Demand, int]], within: Mask | None) -> dict[str, int]:
        """Reserve for as many tasks as possible (of a gang: all or none), evicting if necessary.

        Return how many tasks of each component start soon.
        """
        found: dict[str, int] = {}
        gang = [each for each in demands if each[0].gang]
        attempt = Attempt(self._futures, self._gone)
        if gang and all(self._place(attempt, job, *each, within) == each[1] for each in gang):
            self._carry_out(attempt, job)
            found |= {demand.component: count for demand, count in gang}
        for demand, count in demands:
            if not demand.gang:
                attempt = Attempt(self._futures, self._gone)
                placed = self._place(attempt, job, demand, count, within)
                if placed:
                    self._carry_out(attempt, job)
                    found[demand.component] = placed
        return found

    def _place(self, attempt: Attempt, job: QueuedJob, demand: Demand, count: int, within: Mask | None) -> int:
        eligible = self._futures.unreserved(demand.shape, within)
        need = self._futures.table.need(demand.shape)
        left = count
        for index in sorted({*self._futures.stopping, *self._ledger.reservations, *attempt.free}):
            if left and eligible[index]:
                left -= attempt.allocate_most(need, index, left)
        if self._lowest is None or self._lowest >= job.priority:
            return count - left
        offers = {
            index: self._cheapest(attempt, need, index, job.priority) for index in self._candidates if eligible[index]
        }
        while left:
            known = [(self._cost(victims), index) for index, victims in offers.items() if victims]
            if not known:
                break
            _, index = min(known)
            victims = offers[index] or []
            touched = attempt.evict(victims)
            for each in sorted({index, *touched}):
                if eligible[each] and left:
                    left -= attempt.allocate_most(need, each, left)
            for each in {index, *touched} & set(offers):
                offers[each] = self._cheapest(attempt, need, each, job.priority)
        return count - left

    def _cost(self, victims: list[Victims]) -> tuple[int, int]:
        return sum(each.tasks for each in victims), max(each.priority for each in victims)

    def _cheapest(self, attempt: Attempt, need: Need, index: int, priority: int) -> list[Victims] | None:
        """Return the fewest tasks to stop so that one more task fits on a node; None: no choice is enough."""
        units = self._units(attempt, index, priority)
        if not units or not attempt.would_fit(need, index, units):
            return None
        kinds: dict[tuple[Shape, object, int, int], list[Victims]] = defaultdict(list)
        for unit in units:
            here = [part for part in unit.parts if part[0] == index]
            gang = here[0][1].job if here[0][1].gang else None
            devices = here[0][1].devices[here[0][3] : here[0][3] + 1] if need.whole or need.fraction else None
            kinds[here[0][1].shape, (gang, devices), unit.priority, unit.tasks].append(unit)
        single = [[alike[0]] for alike in kinds.values()]
        pairs: list[list[Victims]] = []
        if len(kinds) <= _FEW:
            several = [unit for alike in kinds.values() for unit in alike[:2]]
            pairs = [list(pair) for pair in combinations(several, 2)]
        for few in sorted([*single, *pairs], key=self._cost):
            if attempt.would_fit(need, index, few):
                return few
        chosen: list[Victims] = []
        for unit in sorted(units, key=lambda unit: (unit.tasks, unit.priority)):
            chosen.append(unit)
            if attempt.would_fit(need, index, chosen):
                break
        for unit in sorted(chosen, key=lambda unit: (-unit.tasks, -unit.priority)):
            rest = [each for each in chosen if each is not unit]
            if rest and attempt.would_fit(need, index, rest):
                chosen = rest
        return chosen

    def _units(self, attempt: Attempt, index: int, priority: int) -> list[Victims]:
        """Return the possible victims on a node, in a fixed order: single tasks, and gangs with a part on the node."""
        units: list[Victims] = []
        gangs: set[str] = set()
        for allocation in self._futures.allocations[index]:
            if not allocation.preemptible or allocation.stopping or allocation.priority >= priority:
                continue
            gone = attempt.gone(allocation)
            if allocation.gang:
                if not gone and allocation.job not in gangs:
                    gangs.add(allocation.job)
                    units.append(self._gangs[allocation.job])
                continue
            single = [at for at in range(allocation.count) if at not in gone]
            units += [Victims(allocation.priority, [(index, allocation, 1, at)]) for at in single]
        return units

    def _carry_out(self, attempt: Attempt, job: QueuedJob) -> None:
        counts: defaultdict[tuple[str, str, str], int] = defaultdict(int)
        devices: defaultdict[tuple[str, str, str], list[DeviceShares]] = defaultdict(list)
        for allocation, which in attempt.evicted:
            self._gone[id(allocation)] |= which
            key = (allocation.job, allocation.component, allocation.node)
            counts[key] += len(which)
            if allocation.devices:
                devices[key] += [allocation.devices[at] for at in sorted(which)]
        for key in sorted(counts):
            self.evictions.append(Eviction(*key, counts[key], job.id, tuple(devices[key])))
        for index in sorted(attempt.changed):
            self._futures.reserve(index, attempt.free[index], job.id)


class Attempt:
    """Evictions and reservations of one try, carried out together or not at all."""

    def __init__(self, futures: Futures, gone: dict[int, set[int]]) -> None:
        self._futures = futures
        self._gone = gone
        self.free: dict[int, FreeResources] = {}
        self.changed: set[int] = set()
        self.evicted: list[tuple[Allocation, set[int]]] = []
        self._now: defaultdict[int, set[int]] = defaultdict(set)

    def gone(self, allocation: Allocation) -> set[int]:
        """Return the evicted tasks of the allocation."""
        return self._gone.get(id(allocation), set()) | self._now[id(allocation)]

    def free_on(self, index: int) -> FreeResources:
        if index not in self.free:
            self.free[index] = self._futures.free_soon(index)
        return self.free[index]

    def allocate_most(self, need: Need, index: int, most: int) -> int:
        free = self.free_on(index)
        times = min(most, self._futures.count(free, need, index))
        if times:
            free.reserve(need, self._futures.table.usable(need, index), times)
            self.changed.add(index)
        return times

    def would_fit(self, need: Need, index: int, victims: Iterable[Victims]) -> bool:
        free = self.free_on(index).copy()
        for unit in victims:
            for where, allocation, count, first in unit.parts:
                if where == index:
                    self._futures.release(free, index, allocation, count, first)
        return self._futures.count(free, need, index) > 0

    def evict(self, victims: Iterable[Victims]) -> set[int]:
        """Evict the victims. Return the indexes of the nodes on which resources become free."""
        touched: set[int] = set()
        for unit in victims:
            for index, allocation, count, first in unit.parts:
                self._futures.release(self.free_on(index), index, allocation, count, first)
                which = set(range(first, first + count))
                self._now[id(allocation)] |= which
                self.evicted.append((allocation, which))
                touched.add(index)
        self.changed |= touched
        return touched
