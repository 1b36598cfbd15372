"""Keeps places for the first job that finds none, so that jobs behind it cannot delay it (EASY backfill).

Where time limits tell when tasks end, each task of the blocked job is given the earliest start that they allow, and
whoever is gone by then may use the place meanwhile. Where they do not tell, the nodes that come nearest to having room
are kept: nothing new goes there but what the blocked job would leave over. Such a node can only come nearer, so even
the largest job starts one day.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd

import numpy as np

from grass.model.resources import DEVICE
from master.planning.futures import Futures
from master.planning.gates import Gate
from master.planning.ledger import Mask
from master.planning.model import Allocation, Demand
from master.planning.need import Need
from master.planning.room import Room


class Reservation:
    """``starts``: seconds until the last of its tasks starts at the latest; None: nobody knows. ``idle``: somewhere
    half of what one of its tasks needs, or more, is free and kept."""

    def __init__(self, futures: Futures, job: str) -> None:
        self._job = job
        self._futures = futures
        self._ledger = futures.ledger
        self._rooms: dict[int, Room] = {}
        self._spare: dict[int, Gate] = {}
        self._wanted: dict[int, list[tuple[Need, int]]] = {}
        self.starts: float | None = 0.0
        self.idle = False

    def make(self, demands: list[tuple[Demand, int]], within: Mask | None) -> bool:
        """``demands``: with how many tasks of each wait. ``within``: the nodes that may be used at all.

        False: there is nothing to keep, because the cluster has no room for them even when it is empty."""
        gang = [each for each in demands if each[0].gang]
        if gang:
            self._together(gang, within)
        for demand, count in demands:
            if not demand.gang:
                self._one_by_one(demand, count, within)
        for place, gate in self._spare.items():
            self._ledger.gates.setdefault(place, []).append(gate)
            self._ledger.touch(place)
        return bool(self._spare)

    def _one_by_one(self, demand: Demand, left: int, within: Mask | None) -> None:
        need = self._ledger.need(demand.shape)
        able = self._able(need, within)
        for place in self._futures.stopping:
            if left and able[place]:
                left -= self._start(place, need, left, 0.0)
        for ends, place, held in self._events(able):
            if not left:
                break
            self._futures.give(self._room(place), place, held, held.count)
            left -= self._start(place, need, left, ends)
        if left:
            self.starts = None
            self._some_day(need, left, able)

    def _start(self, place: int, need: Need, left: int, at: float) -> int:
        """Reserve what fits at the time ``at``."""
        room = self._room(place)
        times = min(left, self._futures.count(room, need, place))
        if times:
            self._look(need, place)
            room.reserve(need, self._ledger.usable(need, place), times)
            self._leave(place, at, room)
            if self.starts is not None:
                self.starts = max(self.starts, at)
        return times

    def _look(self, need: Need, place: int) -> None:
        if not self.idle:
            room = self._ledger.room(place)
            half = all(2 * room.row[column] >= amount for column, amount in need.amounts)
            free = [d for d in self._ledger.usable(need, place) if room.devices[d] >= (need.share or DEVICE)]
            self.idle = half and 2 * len(free) >= need.whole

    def _leave(self, place: int, at: float, room: Room) -> None:
        """At the time ``at`` others may have what is in ``room`` now."""
        gate = self._spare.get(place)
        if gate is None:
            self._spare[place] = Gate(at, room.copy(), self._job)
        else:
            gate.room = gate.room.meet(room)

    def _together(self, gang: list[tuple[Demand, int]], within: Mask | None) -> None:
        """All of a gang at one time: the first at which it fits."""
        needs = [(self._ledger.need(demand.shape), count) for demand, count in gang]
        needs.sort(key=lambda each: (each[0].whole, each[0].amounts), reverse=True)
        ables = [self._able(need, within) for need, _ in needs]
        either: Mask = np.logical_or.reduce(ables)
        counts = [self._counts(need, able) for (need, _), able in zip(needs, ables, strict=True)]
        sums = [sum(count.values()) for count in counts]
        tries, failed = 0, 1
        at = 0.0
        for ends, place, held in [*self._events(either), (None, -1, None)]:
            if all(total >= count for total, (_, count) in zip(sums, needs, strict=True)) and ends != at:
                tries += 1
                if tries >= failed or ends is None:
                    if self._fit(needs, ables, counts, at):
                        return
                    failed = tries * 2
            if ends is None or held is None:
                break
            at = ends
            self._futures.give(self._room(place), place, held, held.count)
            for number, ((need, _), able) in enumerate(zip(needs, ables, strict=True)):
                if able[place]:
                    now = self._futures.count(self._room(place), need, place)
                    sums[number] += now - counts[number].get(place, 0)
                    counts[number][place] = now
        self.starts = None
        if not all([self._some_day(need, count, able) for (need, count), able in zip(needs, ables, strict=True)]):
            self._spare.clear()  # the cluster cannot hold it at all, so nobody has to wait for it
            self._wanted.clear()

    def _counts(self, need: Need, able: Mask) -> dict[int, int]:
        """How many tasks fit on each node soon."""
        counts = self._ledger.counts(need) * able
        found = {int(place): int(counts[place]) for place in np.flatnonzero(counts)}
        for place in (*self._futures.stopping, *self._ledger.gates):
            if able[place]:
                found[place] = self._futures.count(self._room(place), need, place)
        return found

    def _fit(self, needs: list[tuple[Need, int]], ables: list[Mask], counts: list[dict[int, int]], at: float) -> bool:
        """Reserve all of it at the time ``at``, on as few nodes as will do; or nothing."""
        changed: dict[int, Room] = {}
        for number, (need, left) in enumerate(needs):
            for place in sorted(counts[number], key=lambda place: (-counts[number][place], place)):
                room = changed.get(place) or self._room(place).copy()
                times = min(left, self._futures.count(room, need, place))
                if times:
                    self._look(need, place)
                    room.reserve(need, self._ledger.usable(need, place), times)
                    changed[place] = room
                    left -= times
                if not left:
                    break
            if left:
                return False
        for place, room in changed.items():
            self._rooms[place] = room
            self._leave(place, at, room)
        if self.starts is not None:
            self.starts = max(self.starts, at)
        return True

    def _some_day(self, need: Need, left: int, able: Mask) -> bool:
        """Keep the nodes that lack least. Nobody knows when they will have room, so nobody may count on a time.

        False: even the empty cluster has no room for all of them."""
        places = np.flatnonzero(able)
        order: list[int] = places[np.argsort(self._ledger.missing(need)[places], kind="stable")].tolist()
        for place in order:
            empty = self._futures.emptied(place)
            for other, times in self._wanted.get(place, ()):
                empty.take(other, times)
            times = min(left, self._futures.count(empty, need, place))
            if not times:
                continue
            self._look(need, place)
            self._wanted.setdefault(place, []).append((need, times))
            self._keep(place)
            left -= times
            if not left:
                return True
        return False

    def _keep(self, place: int) -> None:
        """Leave to others what is free beyond all that is wanted here. Of what is short nothing is left, but for what
        whole tasks that end can never give back in a fitting piece (``_remainder``)."""
        now, soon = self._ledger.room(place), self._futures.soon(place)
        left = now.meet(soon)
        wanted = [0] * len(left.row)
        devices: set[int] = set()
        for need, times in self._wanted[place]:
            usable = self._ledger.usable(need, place)
            for column, amount in need.amounts:
                wanted[column] += amount * times
            if usable and left.count_devices(need, usable) >= times:
                for _ in range(times):
                    left.move(left.choose(need, usable), -1)
            else:
                devices.update(usable)
        for column, amount in enumerate(wanted):
            if amount:
                over = left.row[column] - amount
                left.row[column] = over if over >= 0 else self._remainder(place, column, over)
        for device in devices:
            left.devices[device] = 0
        gate = self._spare.get(place)
        self._spare[place] = Gate(0.0, left if gate is None else left.meet(gate.room), self._job)

    def _remainder(self, place: int, column: int, over: int) -> int:
        """What is over at least when enough tasks have ended: they free multiples of the greatest common divisor."""
        divisor = 0
        for held in self._futures.held[place]:
            for other, amount in self._ledger.need(held.shape).amounts:
                if other == column:
                    divisor = gcd(divisor, amount)
        return min(over % divisor, max(0, self._ledger.room(place).row[column])) if divisor else 0

    def _able(self, need: Need, within: Mask | None) -> Mask:
        """Nodes that are kept for another job are left to it."""
        able = self._ledger.able(need.shape)
        for place, gates in self._ledger.gates.items():
            if not all(gate.soon for gate in gates):
                able[place] = False
        return able if within is None else able & within

    def _room(self, place: int) -> Room:
        """A node at the time that the sweep has come to, less what was reserved."""
        room = self._rooms.get(place)
        if room is None:
            room = self._rooms[place] = self._futures.soon(place)
        return room

    def _events(self, able: Mask) -> Iterable[tuple[float, int, Allocation]]:
        """Tasks that end at a known time on one of these nodes, in the order of their ends."""
        events: list[tuple[float, int, int, Allocation]] = []
        now, there = self._futures.now, self._futures.held
        for place in np.flatnonzero(able).tolist():
            for number, held in enumerate(there.get(place, ())):
                if held.ends is not None and not held.stopping:
                    ends = held.ends - now
                    events.append((ends if ends > 0.0 else 0.0, place, number, held))
        events.sort()  # no two have the same place and number, so what is held is never compared
        return [(ends, place, held) for ends, place, _, held in events]
