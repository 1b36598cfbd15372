"""What nodes will have once tasks that run now have ended; and what of it is promised to jobs that wait."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from operator import attrgetter

from master.planning.gates import Gate
from master.planning.ledger import Ledger
from master.planning.model import Allocation, Demand, Placement, QueuedJob
from master.planning.need import Need
from master.planning.room import Room


class Futures:
    """``held``: node (its place in the ledger) → what is held there, in an order that the view's does not change."""

    def __init__(self, ledger: Ledger, held: Iterable[Allocation], now: float) -> None:
        self.ledger = ledger
        self.now = now
        places = {node.name: place for place, node in enumerate(ledger.nodes)}
        self.held: defaultdict[int, list[Allocation]] = defaultdict(list)
        self.stopping: set[int] = set()
        for each in held:
            place = places.get(each.node)
            if place is not None:
                self.held[place].append(each)
                if each.stopping:
                    self.stopping.add(place)
        for here in self.held.values():
            if len(here) > 1:
                here.sort(key=_JOB if len(set(map(_JOB, here))) == len(here) else _fixed)
        self._ids: dict[int, dict[int, int]] = {}

    def add(self, booked: Iterable[tuple[QueuedJob, Demand, int, Placement]]) -> None:
        """What this plan has placed holds its place too."""
        for job, demand, place, placement in booked:
            held = Allocation(
                job.id,
                job.user,
                demand.component,
                placement.node,
                placement.count,
                demand.shape,
                placement.devices,
                job.priority,
                ends=None if job.seconds is None else self.now + job.seconds,
            )
            self.held[place].append(held)

    def soon(self, place: int) -> Room:
        """A node as it will be when everything that was told to stop has ended, less what was promised of that."""
        for gate in self.ledger.gates.get(place, ()):
            if gate.soon:
                return gate.room.copy()
        room = self.ledger.room(place).copy()
        if place in self.stopping:
            for each in self.held[place]:
                if each.stopping:
                    self.give(room, place, each, each.count)
        return room

    def promise(self, place: int, room: Room, job: str) -> None:
        """From now on others get what is left in ``room``, a copy of ``soon`` from which something was taken."""
        for gate in self.ledger.gates.get(place, ()):
            if gate.soon:
                gate.room = room
                break
        else:
            self.ledger.gates.setdefault(place, []).append(Gate(0.0, room, job, soon=True))
        self.ledger.touch(place)

    def give(self, room: Room, place: int, held: Allocation, count: int, first: int = 0) -> None:
        """Add to ``room`` what ``count`` of the held tasks would free, from the ``first`` on."""
        need = self.ledger.need(held.shape)
        room.take(need, -count)
        if held.devices and room.devices:
            ids = self._devices(place)
            for shares in held.devices[first : first + count]:
                room.move(tuple((ids[device], share) for device, share in shares if device in ids), 1)

    def emptied(self, place: int) -> Room:
        """A node as it will be when all has ended."""
        room = self.soon(place)
        for each in self.held[place]:
            if not each.stopping:
                self.give(room, place, each, each.count)
        return room

    def count(self, room: Room, need: Need, place: int) -> int:
        return room.count(need, self.ledger.usable(need, place))

    def _devices(self, place: int) -> dict[int, int]:
        """Device id → its place in a room; one that others use, or that is ill, does not come free for us."""
        found = self._ids.get(place)
        if found is None:
            by_id = self.ledger.nodes[place].by_id
            found = self._ids[place] = {
                device.id: at for at, device in enumerate(by_id) if not (device.busy or device.ill)
            }
        return found


_JOB = attrgetter("job", "component")


def _fixed(held: Allocation) -> tuple[object, ...]:
    """An order that is the same however the view came: two that are equal in it are equal."""
    ends = -1.0 if held.ends is None else held.ends
    return held.job, held.component, held.count, held.devices, held.priority, held.stopping, ends, held.shape.key
