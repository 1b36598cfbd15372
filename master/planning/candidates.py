"""The nodes that could take a task of one need, the best first, kept up to date while others book.

Built from arrays over all nodes: a list of the few that are best, and of all once those are spent. From then on only
nodes that changed are looked at again. So a task costs what its neighbours in the queue changed, not what the cluster
is large.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

import numpy as np

from master.planning.ledger import Ledger, Mask
from master.planning.need import Need
from master.planning.ranking import Ranking

FEW = 8
"""Up to so many nodes are looked at one by one: on a machine that wakes up for one task, the first use of numpy costs
several times what it does."""
SOME = 32


class Candidates:
    def __init__(self, ledger: Ledger, need: Need, ranking: Ranking) -> None:
        self._ledger, self._need, self._ranking = ledger, need, ranking
        self._able: Mask | list[bool]
        self._first: list[int] = []
        self._first_scores: list[float] = []
        self._next = 0
        self._changed: list[tuple[float, int, int]] = []  # score, place, its last change
        self._sort(SOME)

    def best(self, seconds: float | None) -> Iterator[tuple[int, int]]:
        """(place, how many fit there now), the best first. Between two steps the caller may book on the place that it
        was given; a place that is full, or not offered to one who takes ``seconds``, does not come."""
        kept: list[tuple[float, int, int]] = []
        try:
            while True:
                self._catch_up()
                if self._cut and self._spent():
                    self._sort(None)
                    kept.clear()
                entry = self._pop()
                if entry is None:
                    return
                place = entry[1]
                count = self._ledger.count(self._need, place, seconds)
                if count:
                    heappush(self._changed, entry)
                    yield place, count
                elif place in self._ledger.gates:
                    kept.append(entry)  # others, who take less long, may find room behind the gate
        finally:
            for entry in kept:
                heappush(self._changed, entry)

    def _sort(self, most: int | None) -> None:
        """List the nodes as they are now, the best ``most`` of them (None: all)."""
        self._next, self._cut = 0, False
        self._built = self._seen = len(self._ledger.log)
        self._changed.clear()
        if len(self._ledger.nodes) > FEW:
            self._sort_many(most)
        else:
            self._sort_few()

    def _sort_many(self, most: int | None) -> None:
        self._able = self._ledger.able(self._need.shape)
        places = np.flatnonzero(self._ledger.fitting(self._need, self._able))
        scores = self._ranking.all()[places]
        self._cut = most is not None and len(places) > most
        if most is not None and self._cut:
            near = np.flatnonzero(scores <= np.partition(scores, most)[most])
            places, scores = places[near], scores[near]
        order = np.argsort(scores, kind="stable")[:most]
        self._first, self._first_scores = places[order].tolist(), scores[order].tolist()

    def _sort_few(self) -> None:
        ledger, need = self._ledger, self._need
        self._able = able = [ledger.suits(need.shape, place) for place in range(len(ledger.nodes))]
        fitting = [p for p, suits in enumerate(able) if suits and ledger.room(p).count(need, ledger.usable(need, p))]
        found = sorted([(self._ranking.one(place), place) for place in fitting])
        self._first, self._first_scores = [place for _, place in found], [score for score, _ in found]

    def _catch_up(self) -> None:
        ledger = self._ledger
        if self._seen == len(ledger.log):
            return
        for place in set(ledger.log[self._seen :]):
            if self._able[place] and ledger.room(place).count(self._need, ledger.usable(self._need, place)):
                heappush(self._changed, (self._ranking.one(place), place, ledger.last[place]))
        self._seen = len(ledger.log)

    def _pop(self) -> tuple[float, int, int] | None:
        """The best entry that still holds: a node that changed since has a newer one, or no room."""
        last, changed = self._ledger.last, self._changed
        while changed and changed[0][2] != last[changed[0][1]]:
            heappop(changed)
        if not self._spent():
            place, score = self._first[self._next], self._first_scores[self._next]
            if not changed or (score, place) < changed[0][:2]:
                self._next += 1
                return score, place, last[place]
        return heappop(changed) if changed else None

    def _spent(self) -> bool:
        """Whether no node is left in the list that is as it was when the list was made."""
        first, last, size = self._first, self._ledger.last, len(self._first)
        while self._next < size and last[first[self._next]] >= self._built:
            self._next += 1
        return self._next == size
