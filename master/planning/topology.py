"""Places that depend on where other tasks of the job are: spread, packed, together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from heapq import heapify, heappop, heappush

import numpy as np

from master.planning.ledger import Floats, Ints, Ledger, Mask
from master.planning.model import Allocation, Demand, QueuedJob
from master.planning.need import Need
from master.planning.room import ENDLESS


class Topology:
    def __init__(self, ledger: Ledger, held: Iterable[Allocation]) -> None:
        self._ledger = ledger
        self._held = held
        self._by_job: dict[str, list[Allocation]] | None = None

    def counts(self, need: Need, seconds: float | None, within: Mask | None) -> Ints:
        """How many tasks fit on each node now, promises to others respected."""
        counts = self._ledger.counts(need)
        for place in self._ledger.gates:
            if counts[place]:
                counts[place] = self._ledger.count(need, place, seconds)
        if within is not None:
            counts = counts * within
        return counts

    def spread(self, job: QueuedJob, demand: Demand, counts: Ints, scores: Floats, most: int) -> list[int]:
        """The node of each task: always in the domain that has the fewest, as far as there is room."""
        domain, _ = self._ledger.domains(demand.spread or 0)
        taken: Counter[int] = Counter()
        for place, count in self._placed(job, demand.component):
            taken[int(domain[place])] += count
        lines: dict[int, list[int]] = {}
        able = np.flatnonzero(counts)
        for place in able[np.argsort(scores[able], kind="stable")][::-1].tolist():
            lines.setdefault(int(domain[place]), []).append(place)
        turns = [(taken[number], float(scores[line[-1]]), number) for number, line in lines.items()]
        heapify(turns)
        left: dict[int, int] = {}
        chosen: list[int] = []
        while turns and len(chosen) < most:
            tasks, score, number = heappop(turns)
            line = lines[number]
            place = line[-1]
            chosen.append(place)
            left[place] = left.get(place, int(counts[place])) - 1
            if not left[place]:
                line.pop()
            if line:
                heappush(turns, (tasks + 1, score, number))
        return chosen

    def packed_into(self, job: QueuedJob, demand: Demand, counts: Ints, most: int) -> Mask | None:
        """The one domain for all tasks of a component: where some are already, else the tightest with room for all,
        else the one with most room. None: none has any."""
        domain, _ = self._ledger.domains(demand.pack or 0)
        for place, _ in self._placed(job, demand.component):
            return _is(domain, int(domain[place]))
        room = _sums(domain, np.minimum(counts, most))
        if not room.any():
            return None
        whole = np.flatnonzero(room >= most)
        best = whole[np.argmin(room[whole])] if len(whole) else np.argmax(room)
        return _is(domain, int(best))

    def for_all(self, job: QueuedJob) -> list[Mask]:
        """The domains in which all tasks of the job could be together, those first that come nearest to it now; or
        the one in which some of them are."""
        ledger = self._ledger
        domain, names = ledger.domains(job.together or 0)
        for place, _ in self._placed(job, None):
            return [_is(domain, int(domain[place]))]
        now = np.zeros(len(names), np.int64)
        tight = np.zeros(len(names), np.int64)
        ever = np.ones(len(names), np.bool_)
        for demand in job.demands:
            need = ledger.need(demand.shape)
            room = _sums(domain, np.minimum(self.counts(need, job.seconds, None), ENDLESS >> 8))
            now += np.minimum(room, demand.count)
            tight += room
            ever &= _sums(domain, ledger.sizes(need)) >= demand.count
        order = sorted(np.flatnonzero(now).tolist(), key=lambda number: (not ever[number], -now[number], tight[number]))
        return [_is(domain, number) for number in order]

    def to_wait_for(self, job: QueuedJob, demand: Demand | None) -> Mask | None:
        """The domain that a blocked job waits for: of those that could hold it, the one with most room now."""
        level = job.together if demand is None else demand.pack
        if level is None:
            return None
        domain, names = self._ledger.domains(level)
        for place, _ in self._placed(job, None if demand is None else demand.component):
            return _is(domain, int(domain[place]))
        now = np.zeros(len(names), np.int64)
        ever = np.ones(len(names), np.bool_)
        for each in job.demands if demand is None else [demand]:
            need = self._ledger.need(each.shape)
            now += np.minimum(_sums(domain, np.minimum(self._ledger.counts(need), each.count)), each.count)
            ever &= _sums(domain, np.minimum(self._ledger.sizes(need), each.count)) >= (each.count if each.gang else 1)
        best = min(range(len(names)), key=lambda number: (not ever[number], -now[number], number))
        return _is(domain, best)

    def _placed(self, job: QueuedJob, component: str | None) -> list[tuple[int, int]]:
        """(node, how many) of the tasks of a job, or of one of its components, that hold a place."""
        if not job.begun:
            return []
        if self._by_job is None:
            self._by_job = {}
            for held in self._held:
                self._by_job.setdefault(held.job, []).append(held)
        places = self._ledger.places_by_name()
        return sorted(
            (places[held.node], held.count)
            for held in self._by_job.get(job.id, ())
            if held.node in places and component in (None, held.component)
        )


def _sums(domain: Ints, amounts: Ints) -> Ints:
    sums: Ints = np.bincount(domain, weights=amounts).astype(np.int64)
    return sums


def _is(domain: Ints, number: int) -> Mask:
    mask: Mask = domain == number
    return mask
