"""Finds places for the tasks of one demand and books them."""

from __future__ import annotations

from master.planning.candidates import Candidates
from master.planning.ledger import Ledger
from master.planning.model import Demand, Placement, QueuedJob
from master.planning.need import Need
from master.planning.ranking import Ranking


class Finder:
    """Keeps the candidates of each need and policy from one demand to the next. ``placements``: what was booked."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.placements: list[Placement] = []
        self._candidates: dict[tuple[str, str, str], tuple[Candidates, Ranking, Need]] = {}

    def place(self, job: QueuedJob, demand: Demand, most: int) -> int:
        """Book up to ``most`` tasks; answers how many."""
        candidates, ranking, need = self._of(job, demand)
        left = most
        if left <= 0:
            return 0
        for place, count in candidates.best(job.seconds):
            times = min(count, left) if ranking.fills else 1
            self.book(job, demand, need, place, times)
            left -= times
            if not left:
                break
        return most - left

    def book(self, job: QueuedJob, demand: Demand, need: Need, place: int, times: int) -> None:
        devices = self.ledger.take(need, place, times, job.seconds)
        node = self.ledger.nodes[place].name
        self.placements.append(Placement(job.id, demand.component, node, times, devices))

    def _of(self, job: QueuedJob, demand: Demand) -> tuple[Candidates, Ranking, Need]:
        key = (demand.shape.key, job.policy.value, job.metric)
        found = self._candidates.get(key)
        if found is None:
            need = self.ledger.need(demand.shape)
            ranking = Ranking(self.ledger, need, job.policy, job.metric)
            found = self._candidates[key] = (Candidates(self.ledger, need, ranking), ranking, need)
        return found
