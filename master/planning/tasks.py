"""Finds places for the tasks of one demand and books them."""

from __future__ import annotations

from collections import Counter
from heapq import heappop, heappush

import numpy as np

from master.planning.candidates import Candidates
from master.planning.ledger import Ints, Ledger, Mask
from master.planning.model import Demand, Placement, QueuedJob
from master.planning.need import Need
from master.planning.ranking import Ranking, Standings, length_of
from master.planning.topology import Topology


class Finder:
    """Keeps the candidates of each need and policy from one demand to the next. ``placements``: what was booked."""

    def __init__(self, ledger: Ledger, topology: Topology) -> None:
        self.ledger = ledger
        self.topology = topology
        self.placements: list[Placement] = []
        self._booked: list[tuple[QueuedJob, Demand, int]] = []
        self._told = 0
        self._standings = Standings(ledger)
        self._candidates: dict[tuple[str, str, str, float], tuple[Candidates, Ranking, Need]] = {}

    def place(self, job: QueuedJob, demand: Demand, most: int, within: Mask | None = None) -> int:
        """Book up to ``most`` tasks, within some nodes only when so told; answers how many."""
        if most <= 0:
            return 0
        if within is not None or demand.spread is not None or demand.pack is not None:
            return self._place_by_topology(job, demand, most, within)
        candidates, ranking, need = self._of(job, demand)
        left = most
        for place, count in candidates.best(job.seconds):
            times = min(count, left) if ranking.fills else 1
            self.book(job, demand, need, place, times)
            left -= times
            if not left:
                break
        return most - left

    def news(self) -> list[tuple[QueuedJob, Demand, int, Placement]]:
        """What was booked since this was asked last; not to be asked while something may still be forgotten."""
        told, self._told = self._told, len(self.placements)
        return [
            (*booked, placement) for booked, placement in zip(self._booked[told:], self.placements[told:], strict=True)
        ]

    def forget(self, after: int) -> None:
        """Drop all placements but the first ``after``."""
        del self.placements[after:], self._booked[after:]

    def _place_by_topology(self, job: QueuedJob, demand: Demand, most: int, within: Mask | None) -> int:
        need = self.ledger.need(demand.shape)
        ranking = Ranking(self._standings, need, job.policy, job.metric, length_of(job.seconds))
        counts = self.topology.counts(need, job.seconds, within)
        if demand.pack is not None:
            domain = self.topology.packed_into(job, demand, counts, most)
            if domain is None:
                return 0
            counts = counts * domain
        most = min(most, int(np.minimum(counts, most).sum()))
        if demand.spread is not None:
            places = self.topology.spread(job, demand, counts, ranking.all(), most)
        else:
            places = self._ranked(counts, ranking, most)
        for place, times in Counter(places).items():
            self.book(job, demand, need, place, times)
        return len(places)

    def _ranked(self, counts: Ints, ranking: Ranking, most: int) -> list[int]:
        able = np.flatnonzero(counts)
        scores = ranking.all()
        order: list[int] = able[np.argsort(scores[able], kind="stable")].tolist()
        if ranking.fills:
            chosen: list[int] = []
            for place in order:
                chosen += [place] * min(int(counts[place]), most - len(chosen))
            return chosen
        step = ranking.step
        turns = [(float(scores[place]), place, int(counts[place])) for place in order]
        chosen = []
        while len(chosen) < most:
            score, place, left = heappop(turns)
            chosen.append(place)
            if left > 1:
                heappush(turns, (score + step, place, left - 1))
        return chosen

    def book(self, job: QueuedJob, demand: Demand, need: Need, place: int, times: int) -> None:
        devices = self.ledger.take(need, place, times, job.seconds)
        node = self.ledger.nodes[place].name
        self.placements.append(Placement(job.id, demand.component, node, times, devices))
        self._booked.append((job, demand, place))

    def _of(self, job: QueuedJob, demand: Demand) -> tuple[Candidates, Ranking, Need]:
        length = length_of(job.seconds)
        key = (demand.shape.key, job.policy.value, job.metric, length)
        found = self._candidates.get(key)
        if found is None:
            need = self.ledger.need(demand.shape)
            ranking = Ranking(self._standings, need, job.policy, job.metric, length)
            found = self._candidates[key] = (Candidates(self.ledger, need, ranking), ranking, need)
        return found
