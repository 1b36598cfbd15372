"""Future free resources of nodes, and their reservations. Used by ``Reserver`` and ``Preemption``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from operator import attrgetter

from master.planning.free_resources import FreeResources
from master.planning.free_table import FreeTable
from master.planning.model import Allocation, Demand, Placement, QueuedJob, Shape
from master.planning.need import Need
from master.planning.node_table import Mask
from master.planning.reservation import Reservation


class Futures:
    """Future states of nodes.

    ``allocations``: node index → its allocations, in an order independent of the snapshot's. ``stopping``: the nodes
    with an allocation that was told to stop.
    """

    def __init__(self, free_table: FreeTable, allocations: Iterable[Allocation], now: float) -> None:
        self.free_table = free_table
        self.ledger = free_table.ledger
        self.table = free_table.table
        self.now = now
        indexes = {node.name: index for index, node in enumerate(self.table.nodes)}
        self.allocations: defaultdict[int, list[Allocation]] = defaultdict(list)
        self.stopping: set[int] = set()
        for each in allocations:
            index = indexes.get(each.node)
            if index is not None:
                self.allocations[index].append(each)
                if each.stopping:
                    self.stopping.add(index)
        for here in self.allocations.values():
            if len(here) > 1:
                here.sort(key=_JOB if len(set(map(_JOB, here))) == len(here) else _fixed)
        self._ids: dict[int, dict[int, int]] = {}

    def add(self, placed: Iterable[tuple[QueuedJob, Demand, int, Placement]]) -> None:
        """Count the placements of this plan as allocated."""
        for job, demand, index, placement in placed:
            allocation = Allocation(
                job.id,
                job.user,
                demand.component,
                placement.node,
                placement.count,
                demand.shape,
                placement.devices,
                job.priority,
                ends=None if job.seconds is None else self.now + job.seconds,
                expected=None if job.expected is None else self.now + job.expected,
            )
            self.allocations[index].append(allocation)

    def free_soon(self, index: int) -> FreeResources:
        """Return a node's free resources after every stopping task has ended, less its reservations."""
        for reservation in self.ledger.reservations.get(index, ()):
            if reservation.preempted:
                return reservation.free.copy()
        free = self.ledger.free_on(index).copy()
        if index in self.stopping:
            for each in self.allocations[index]:
                if each.stopping:
                    self.release(free, index, each, each.count)
        return free

    def free_when_empty(self, index: int) -> FreeResources:
        """Return a node's free resources after every task on the node has ended, less its reservations."""
        free = self.free_soon(index)
        for each in self.allocations[index]:
            if not each.stopping:
                self.release(free, index, each, each.count)
        return free

    def reserve(self, index: int, free: FreeResources, job: str) -> None:
        """Leave only ``free`` to other jobs: a copy of ``free_soon`` less the needs of ``job``."""
        for reservation in self.ledger.reservations.get(index, ()):
            if reservation.preempted:
                reservation.free = free
                break
        else:
            self.ledger.reservations.setdefault(index, []).append(Reservation(0.0, free, job, preempted=True))
        self.ledger.touch(index)

    def release(self, free: FreeResources, index: int, allocation: Allocation, count: int, first: int = 0) -> None:
        """Add to ``free`` the use of ``count`` tasks of the allocation, from its task ``first`` on."""
        need = self.table.need(allocation.shape)
        free.allocate(need, -count)
        if allocation.devices and free.devices:
            ids = self._devices(index)
            for shares in allocation.devices[first : first + count]:
                free.move(tuple((ids[device], share) for device, share in shares if device in ids), 1)

    def unreserved(self, shape: Shape, within: Mask | None) -> Mask:
        """Return the eligible nodes without a reservation for a job that is served earlier."""
        eligible = self.table.eligible(shape)
        for index, reservations in self.ledger.reservations.items():
            if not all(reservation.preempted for reservation in reservations):
                eligible[index] = False
        return eligible if within is None else eligible & within

    def count(self, free: FreeResources, need: Need, index: int) -> int:
        return free.count(need, self.table.usable(need, index))

    def _devices(self, index: int) -> dict[int, int]:
        """Return device id → index in ``FreeResources``. Leaves out devices in quarantine or used by other programs."""
        found = self._ids.get(index)
        if found is None:
            by_id = self.table.nodes[index].by_id
            found = self._ids[index] = {
                device.id: number for number, device in enumerate(by_id) if not (device.busy or device.quarantine)
            }
        return found


_JOB = attrgetter("job", "component")


def _fixed(allocation: Allocation) -> tuple[object, ...]:
    """A sort key that does not depend on the order of the snapshot: allocations with equal keys are equal."""
    each = allocation
    ends, expected = (-1.0 if time is None else time for time in (each.ends, each.expected))
    return (
        each.job,
        each.component,
        each.count,
        each.devices,
        each.priority,
        each.stopping,
        ends,
        expected,
        each.shape.key,
    )
