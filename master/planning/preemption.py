"""Stops tasks of lower priority for a job that finds no place: as few as will do, and only if it then really fits.

What is being stopped already counts as free soon, so nothing is stopped twice for the same need. A job with a gang is
worthless in parts, so it is stopped whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations

from master.planning.futures import Futures
from master.planning.ledger import Mask
from master.planning.model import Allocation, Demand, DeviceShares, Eviction, QueuedJob, Shape
from master.planning.need import Need
from master.planning.room import Room

_FEW = 12
"""Kinds of victims on one node up to which pairs are tried before the greedy choice."""


@dataclass
class Victims:
    """``parts``: (node, held, how many of its tasks, from which on), of one gang or of one task."""

    priority: int
    parts: list[tuple[int, Allocation, int, int]] = field(default_factory=list)

    @property
    def tasks(self) -> int:
        return sum(count for _, _, count, _ in self.parts)


class Preemption:
    def __init__(self, futures: Futures) -> None:
        self._futures = futures
        self._ledger = futures.ledger
        self.evictions: list[Eviction] = []
        self._gone: defaultdict[int, set[int]] = defaultdict(set)  # id of a Allocation → which of its tasks are evicted
        self._gangs: defaultdict[str, Victims] = defaultdict(lambda: Victims(0))
        self._places: list[int] = []
        self._lowest: int | None = None
        for place, here in futures.held.items():
            found = [held for held in here if held.preemptible and not held.stopping]
            if found:
                self._places.append(place)
                lowest = min(held.priority for held in found)
                self._lowest = lowest if self._lowest is None else min(self._lowest, lowest)
            for held in found:
                if held.gang:
                    self._gangs[held.job].priority = held.priority
                    self._gangs[held.job].parts.append((place, held, held.count, 0))
        self._places.sort()

    def possible(self, job: QueuedJob) -> bool:
        return bool(self._futures.stopping) or (self._lowest is not None and self._lowest < job.priority)

    def make(self, job: QueuedJob, demands: list[tuple[Demand, int]], within: Mask | None) -> dict[str, int]:
        """Promise places to as many tasks as possible (of a gang: to all or none), evicting where it must.

        Answers how many of each component have a place soon."""
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
        able = self._able(demand, within)
        need = self._ledger.need(demand.shape)
        left = count
        for place in sorted({*self._futures.stopping, *self._ledger.gates, *attempt.rooms}):
            if left and able[place]:
                left -= attempt.take(need, place, left)
        if self._lowest is None or self._lowest >= job.priority:
            return count - left
        offers = {place: self._cheapest(attempt, need, place, job.priority) for place in self._places if able[place]}
        while left:
            known = [(self._cost(victims), place) for place, victims in offers.items() if victims]
            if not known:
                break
            _, place = min(known)
            victims = offers[place] or []
            touched = attempt.evict(victims)
            for each in sorted({place, *touched}):
                if able[each] and left:
                    left -= attempt.take(need, each, left)
            for each in {place, *touched} & set(offers):
                offers[each] = self._cheapest(attempt, need, each, job.priority)
        return count - left

    def _able(self, demand: Demand, within: Mask | None) -> Mask:
        able = self._ledger.able(demand.shape)
        if within is not None:
            able &= within
        for place, gates in self._ledger.gates.items():
            if not all(gate.soon for gate in gates):
                able[place] = False  # kept for a job that is served first
        return able

    def _cost(self, victims: list[Victims]) -> tuple[int, int]:
        return sum(each.tasks for each in victims), max(each.priority for each in victims)

    def _cheapest(self, attempt: Attempt, need: Need, place: int, priority: int) -> list[Victims] | None:
        """The fewest tasks whose end makes room for one more on a node; None when all of them would not do."""
        units = self._units(attempt, place, priority)
        if not units or not attempt.would_fit(need, place, units):
            return None
        kinds: dict[tuple[Shape, object, int, int], list[Victims]] = defaultdict(list)
        for unit in units:
            here = [part for part in unit.parts if part[0] == place]
            gang = here[0][1].job if here[0][1].gang else None
            devices = here[0][1].devices[here[0][3] : here[0][3] + 1] if need.whole or need.share else None
            kinds[here[0][1].shape, (gang, devices), unit.priority, unit.tasks].append(unit)
        single = [[alike[0]] for alike in kinds.values()]
        pairs: list[list[Victims]] = []
        if len(kinds) <= _FEW:
            several = [unit for alike in kinds.values() for unit in alike[:2]]
            pairs = [list(pair) for pair in combinations(several, 2)]
        for few in sorted([*single, *pairs], key=self._cost):
            if attempt.would_fit(need, place, few):
                return few
        chosen: list[Victims] = []
        for unit in sorted(units, key=lambda unit: (unit.tasks, unit.priority)):
            chosen.append(unit)
            if attempt.would_fit(need, place, chosen):
                break
        for unit in sorted(chosen, key=lambda unit: (-unit.tasks, -unit.priority)):
            rest = [each for each in chosen if each is not unit]
            if rest and attempt.would_fit(need, place, rest):
                chosen = rest
        return chosen

    def _units(self, attempt: Attempt, place: int, priority: int) -> list[Victims]:
        """What could be stopped on a node, in a fixed order: single tasks, and gangs with a part there."""
        units: list[Victims] = []
        gangs: set[str] = set()
        for held in self._futures.held[place]:
            if not held.preemptible or held.stopping or held.priority >= priority:
                continue
            gone = attempt.gone(held)
            if held.gang:
                if not gone and held.job not in gangs:
                    gangs.add(held.job)
                    units.append(self._gangs[held.job])
                continue
            units += [Victims(held.priority, [(place, held, 1, at)]) for at in range(held.count) if at not in gone]
        return units

    def _carry_out(self, attempt: Attempt, job: QueuedJob) -> None:
        counts: defaultdict[tuple[str, str, str], int] = defaultdict(int)
        devices: defaultdict[tuple[str, str, str], list[DeviceShares]] = defaultdict(list)
        for held, which in attempt.evicted:
            self._gone[id(held)] |= which
            key = (held.job, held.component, held.node)
            counts[key] += len(which)
            if held.devices:
                devices[key] += [held.devices[at] for at in sorted(which)]
        for key in sorted(counts):
            self.evictions.append(Eviction(*key, counts[key], job.id, tuple(devices[key])))
        for place in sorted(attempt.changed):
            self._futures.promise(place, attempt.rooms[place], job.id)


class Attempt:
    """Evictions and promises that are carried out together or not at all."""

    def __init__(self, futures: Futures, gone: dict[int, set[int]]) -> None:
        self._futures = futures
        self._gone = gone
        self.rooms: dict[int, Room] = {}
        self.changed: set[int] = set()
        self.evicted: list[tuple[Allocation, set[int]]] = []
        self._now: defaultdict[int, set[int]] = defaultdict(set)

    def gone(self, held: Allocation) -> set[int]:
        """Which of its tasks are evicted."""
        return self._gone.get(id(held), set()) | self._now[id(held)]

    def room(self, place: int) -> Room:
        if place not in self.rooms:
            self.rooms[place] = self._futures.soon(place)
        return self.rooms[place]

    def take(self, need: Need, place: int, most: int) -> int:
        room = self.room(place)
        times = min(most, self._futures.count(room, need, place))
        if times:
            room.reserve(need, self._futures.ledger.usable(need, place), times)
            self.changed.add(place)
        return times

    def would_fit(self, need: Need, place: int, victims: Iterable[Victims]) -> bool:
        room = self.room(place).copy()
        for unit in victims:
            for where, held, count, first in unit.parts:
                if where == place:
                    self._futures.give(room, place, held, count, first)
        return self._futures.count(room, need, place) > 0

    def evict(self, victims: Iterable[Victims]) -> set[int]:
        """Answers with the nodes that gained."""
        touched: set[int] = set()
        for unit in victims:
            for place, held, count, first in unit.parts:
                self._futures.give(self.room(place), place, held, count, first)
                which = set(range(first, first + count))
                self._now[id(held)] |= which
                self.evicted.append((held, which))
                touched.add(place)
        self.changed |= touched
        return touched
