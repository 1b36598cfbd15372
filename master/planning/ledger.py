"""The free resources of each node while a plan is made: nothing is allocated twice.

The array form of the same facts is ``FreeTable``, which follows ``Ledger.log``. Used by ``free_table``, ``ranking`` and
``round``.
"""

from __future__ import annotations

from collections.abc import Iterable

from master.planning.free_resources import FreeResources
from master.planning.model import Allocation, DeviceShares
from master.planning.need import Need
from master.planning.node_table import NodeTable
from master.planning.reservation import Reservation

NEVER = 1e12
"""Seconds until the end of an allocation that has no known end."""


class Ledger:
    """Allocations of one plan. ``log``: indexes of changed nodes, in order.

    ``last``: a node's last index in the log (-1: none). ``reservations``: node index → the reservation there, for jobs
    that cannot start yet. ``busy``: upper bound of the seconds until each node is empty (0: the node is empty now).
    """

    def __init__(self, table: NodeTable, allocations: Iterable[Allocation], now: float) -> None:
        self.table = table
        self.reservations: dict[int, list[Reservation]] = {}
        self.log: list[int] = []
        self.last = [-1] * len(table)
        self.busy = self._busy(allocations, now)
        self._free: dict[int, FreeResources] = {}
        self._undo: list[tuple[int, float, list[tuple[FreeResources, FreeResources]]]] = []
        self._depth = 0

    def free_on(self, index: int) -> FreeResources:
        """Return the free resources of a node, ignoring reservations."""
        free = self._free.get(index)
        if free is None:
            devices = [device.offered for device in self.table.nodes[index].by_id]
            free = self._free[index] = FreeResources(self.table.row(index), devices, pods=self.table.nodes[index].pods)
        return free

    def offer(self, index: int, seconds: float | None, expected: float | None = None) -> FreeResources:
        """Return the resources of a node that a task with this time limit and estimate (None: none) may use."""
        free = self.free_on(index)
        for reservation in self.reservations.get(index, ()):
            if reservation.limits(seconds, expected):
                free = free.minimum(reservation.free)
        return free

    def count(self, need: Need, index: int, seconds: float | None, expected: float | None = None) -> int:
        return self.offer(index, seconds, expected).count(need, self.table.usable(need, index))

    def allocate(
        self, need: Need, index: int, times: int, seconds: float | None, expected: float | None = None
    ) -> tuple[DeviceShares, ...]:
        """Allocate ``times`` tasks, which must fit in the offer. Return the devices of each task that uses GPUs."""
        reservations = self.reservations.get(index, ())
        changed = [self.free_on(index), *(each.free for each in reservations if each.limits(seconds, expected))]
        if self._depth:
            self._undo.append((index, self.busy[index], [(free, free.copy()) for free in changed]))
        given: list[DeviceShares] = []
        if need.whole or need.fraction:
            usable, ids = self.table.usable(need, index), self.table.nodes[index].by_id
            for _ in range(times):
                shares = self.offer(index, seconds, expected).choose(need, usable)
                for free in changed:
                    free.move(shares, -1)
                given.append(tuple((ids[device].id, share) for device, share in shares))
        for free in changed:
            free.allocate(need, times)
        self.busy[index] = max(self.busy[index], NEVER if seconds is None else seconds)
        self.touch(index)
        return tuple(given)

    def touch(self, index: int) -> None:
        """Record that a node's offer has changed."""
        self.last[index] = len(self.log)
        self.log.append(index)

    # transactions: all or nothing

    def begin(self) -> int:
        """Begin a transaction; transactions may be nested. Return the mark that ``roll_back`` takes."""
        self._depth += 1
        return len(self._undo)

    def commit(self) -> None:
        self._depth -= 1
        if not self._depth:
            self._undo.clear()

    def roll_back(self, mark: int) -> None:
        """Undo every allocation since ``begin`` returned the mark."""
        while len(self._undo) > mark:
            index, busy, changed = self._undo.pop()
            self.busy[index] = busy
            for free, before in changed:
                free.row, free.devices = before.row, before.devices
            self.touch(index)
        self.commit()

    def _busy(self, allocations: Iterable[Allocation], now: float) -> list[float]:
        latest: dict[str, float] = {}
        for each in allocations:
            ends = NEVER if each.ends is None else each.ends - now
            if ends > latest.get(each.node, 0.0):
                latest[each.node] = ends
        return [latest.get(node.name, 0.0) for node in self.table.nodes]
