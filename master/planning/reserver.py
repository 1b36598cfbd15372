"""Reserves nodes for the first jobs that cannot start, so that later jobs cannot delay them (EASY backfill).

Called by ``Round`` once per blocked job. If time limits or estimates tell when tasks end, each task of the blocked job
gets the earliest start that they allow, and shorter tasks may use the node until then. Otherwise, the nodes with the
least shortage are reserved: new tasks there use only the surplus of the blocked job. The shortage of such a node never
grows, so even the largest job starts eventually.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd

import numpy as np

from grass.model.resources import DEVICE
from master.planning.free_resources import FreeResources
from master.planning.futures import Futures
from master.planning.model import Allocation, Demand
from master.planning.need import Need
from master.planning.node_table import Mask
from master.planning.reservation import Reservation


class Reserver:
    """Reserves for one job. ``starts``: seconds until the last of its tasks starts at the latest; None: unknown.

    ``idle``: on some reserved node, at least half of the need of one task is free. ``trusts``: whether estimates count.
    ``estimated``: whether ``starts`` comes from an estimate.
    """

    def __init__(self, futures: Futures, job: str, *, trusts: bool = True) -> None:
        self._job = job
        self._trusts = trusts
        self.estimated = False
        self._futures = futures
        self._ledger = futures.ledger
        self._table = futures.table
        self._free: dict[int, FreeResources] = {}
        self._reservations: dict[int, Reservation] = {}
        self._wanted: dict[int, list[tuple[Need, int]]] = {}
        self.starts: float | None = 0.0
        self.idle = False

    def make(self, demands: list[tuple[Demand, int]], within: Mask | None) -> bool:
        """Reserve for the demands, each with the number of its waiting tasks. ``within``: the nodes that may be used.

        Return False if nothing is reserved, because the tasks do not fit even in an empty cluster.
        """
        gang = [each for each in demands if each[0].gang]
        if gang:
            self._reserve_gang(gang, within)
        for demand, count in demands:
            if not demand.gang:
                self._reserve_tasks(demand, count, within)
        for index, reservation in self._reservations.items():
            self._ledger.reservations.setdefault(index, []).append(reservation)
            self._ledger.touch(index)
        return bool(self._reservations)

    def _reserve_tasks(self, demand: Demand, left: int, within: Mask | None) -> None:
        need = self._table.need(demand.shape)
        eligible = self._futures.unreserved(demand.shape, within)
        for index in self._futures.stopping:
            if left and eligible[index]:
                left -= self._start(index, need, left, 0.0)
        for ends, index, allocation, estimated in self._ends(eligible):
            if not left:
                break
            self.estimated = self.estimated or estimated
            self._futures.release(self._free_on(index), index, allocation, allocation.count)
            left -= self._start(index, need, left, ends)
        if left:
            self.starts = None
            self._reserve_nearest(need, left, eligible)

    def _start(self, index: int, need: Need, left: int, at: float) -> int:
        """Reserve up to ``left`` tasks that fit at the time ``at``. Return the number reserved."""
        free = self._free_on(index)
        times = min(left, self._futures.count(free, need, index))
        if times:
            self._note_idle(need, index)
            free.reserve(need, self._table.usable(need, index), times)
            self._reserve(index, at, free)
            if self.starts is not None:
                self.starts = max(self.starts, at)
        return times

    def _note_idle(self, need: Need, index: int) -> None:
        if not self.idle:
            free = self._ledger.free_on(index)
            half = all(2 * free.row[column] >= amount for column, amount in need.on(free.pods))
            devices = [d for d in self._table.usable(need, index) if free.devices[d] >= (need.fraction or DEVICE)]
            self.idle = half and 2 * len(devices) >= need.whole

    def _reserve(self, index: int, at: float, free: FreeResources) -> None:
        """Leave ``free`` to other jobs from the time ``at`` on."""
        reservation = self._reservations.get(index)
        if reservation is None:
            self._reservations[index] = Reservation(at, free.copy(), self._job, estimated=self.estimated)
        else:
            reservation.free = reservation.free.minimum(free)

    def _reserve_gang(self, gang: list[tuple[Demand, int]], within: Mask | None) -> None:
        """Reserve a whole gang at one time: the first time at which the gang fits."""
        needs = [(self._table.need(demand.shape), count) for demand, count in gang]
        needs.sort(key=lambda each: (each[0].whole, each[0].amounts), reverse=True)
        eligibles = [self._futures.unreserved(need.shape, within) for need, _ in needs]
        either: Mask = np.logical_or.reduce(eligibles)
        counts = [self._counts(need, eligible) for (need, _), eligible in zip(needs, eligibles, strict=True)]
        sums = [sum(count.values()) for count in counts]
        tries, failed = 0, 1
        at = 0.0
        for ends, index, allocation, estimated in [*self._ends(either), (None, -1, None, False)]:
            if all(total >= count for total, (_, count) in zip(sums, needs, strict=True)) and ends != at:
                tries += 1
                if tries >= failed or ends is None:
                    if self._fit(needs, counts, at):
                        return
                    failed = tries * 2
            if ends is None or allocation is None:
                break
            at = ends
            self.estimated = self.estimated or estimated
            self._futures.release(self._free_on(index), index, allocation, allocation.count)
            for number, ((need, _), eligible) in enumerate(zip(needs, eligibles, strict=True)):
                if eligible[index]:
                    now = self._futures.count(self._free_on(index), need, index)
                    sums[number] += now - counts[number].get(index, 0)
                    counts[number][index] = now
        self.starts = None
        pairs = zip(needs, eligibles, strict=True)
        if not all([self._reserve_nearest(need, count, eligible) for (need, count), eligible in pairs]):
            self._reservations.clear()  # the gang does not fit even in an empty cluster, so nobody must wait for it
            self._wanted.clear()

    def _counts(self, need: Need, eligible: Mask) -> dict[int, int]:
        """Return how many tasks fit on each node once every stopping task has ended."""
        counts = self._futures.free_table.counts(need) * eligible
        found = {int(index): int(counts[index]) for index in np.flatnonzero(counts)}
        for index in (*self._futures.stopping, *self._ledger.reservations):
            if eligible[index]:
                found[index] = self._futures.count(self._free_on(index), need, index)
        return found

    def _fit(self, needs: list[tuple[Need, int]], counts: list[dict[int, int]], at: float) -> bool:
        """Reserve all needs at the time ``at``, on as few nodes as possible, or reserve nothing."""
        changed: dict[int, FreeResources] = {}
        for number, (need, wanted) in enumerate(needs):
            left = wanted
            for index in sorted(counts[number], key=lambda index: (-counts[number][index], index)):
                free = changed.get(index) or self._free_on(index).copy()
                times = min(left, self._futures.count(free, need, index))
                if times:
                    self._note_idle(need, index)
                    free.reserve(need, self._table.usable(need, index), times)
                    changed[index] = free
                    left -= times
                if not left:
                    break
            if left:
                return False
        for index, free in changed.items():
            self._free[index] = free
            self._reserve(index, at, free)
        if self.starts is not None:
            self.starts = max(self.starts, at)
        return True

    def _reserve_nearest(self, need: Need, left: int, eligible: Mask) -> bool:
        """Reserve the nodes with the least shortage, without a time: the ends of their tasks are not known.

        Return False if the tasks do not all fit even in an empty cluster.
        """
        indexes = np.flatnonzero(eligible)
        shortages = self._futures.free_table.shortages(need)
        order: list[int] = indexes[np.argsort(shortages[indexes], kind="stable")].tolist()
        for index in order:
            empty = self._futures.free_when_empty(index)
            for other, times in self._wanted.get(index, ()):
                empty.allocate(other, times)
            times = min(left, self._futures.count(empty, need, index))
            if not times:
                continue
            self._note_idle(need, index)
            self._wanted.setdefault(index, []).append((need, times))
            self._reserve_surplus(index)
            left -= times
            if not left:
                return True
        return False

    def _reserve_surplus(self, index: int) -> None:
        """Leave the surplus over the job's needs on a node to other jobs.

        Of a short resource, leave only the amount that can never become part of a fitting task (``_remainder``).
        """
        now, soon = self._ledger.free_on(index), self._futures.free_soon(index)
        left = now.minimum(soon)
        wanted = [0] * len(left.row)
        devices: set[int] = set()
        for need, times in self._wanted[index]:
            usable = self._table.usable(need, index)
            for column, amount in need.on(left.pods):
                wanted[column] += amount * times
            if usable and left.count_devices(need, usable) >= times:
                for _ in range(times):
                    left.move(left.choose(need, usable), -1)
            else:
                devices.update(usable)
        for column, amount in enumerate(wanted):
            if amount:
                over = left.row[column] - amount
                left.row[column] = over if over >= 0 else self._remainder(index, column, over)
        for device in devices:
            left.devices[device] = 0
        before = self._reservations.get(index)
        self._reservations[index] = Reservation(0.0, left if before is None else left.minimum(before.free), self._job)

    def _remainder(self, index: int, column: int, over: int) -> int:
        """Return the amount that surely remains once enough tasks have ended.

        Tasks release multiples of their greatest common divisor.
        """
        divisor = 0
        for allocation in self._futures.allocations[index]:
            for other, amount in self._table.need(allocation.shape).on(self._table.nodes[index].pods):
                if other == column:
                    divisor = gcd(divisor, amount)
        return min(over % divisor, max(0, self._ledger.free_on(index).row[column])) if divisor else 0

    def _free_on(self, index: int) -> FreeResources:
        """Return a node's free resources at the current time of the sweep over ``_ends``, less its reservations."""
        free = self._free.get(index)
        if free is None:
            free = self._free[index] = self._futures.free_soon(index)
        return free

    def _ends(self, eligible: Mask) -> Iterable[tuple[float, int, Allocation, bool]]:
        """Return the allocations with a known end on one of these nodes, in the order of their ends.

        The last value tells whether the end is an estimate. An estimate that has passed tells nothing any more.
        """
        events: list[tuple[float, int, int, Allocation, bool]] = []
        now, there = self._futures.now, self._futures.allocations
        for index in np.flatnonzero(eligible).tolist():
            for number, allocation in enumerate(there.get(index, ())):
                if allocation.stopping:
                    continue
                if allocation.ends is not None:
                    events.append((max(0.0, allocation.ends - now), index, number, allocation, False))
                elif self._trusts and allocation.expected is not None and allocation.expected > now:
                    events.append((allocation.expected - now, index, number, allocation, True))
        events.sort()  # no two have the same index and number, so allocations are never compared
        return [(ends, index, allocation, estimated) for ends, index, _, allocation, estimated in events]
