"""The nodes on which a task of one need fits, the best first, updated while other tasks are allocated.

Used by ``Finder``. Arrays over all nodes give a list of the few best nodes, and after these are used up a list of all.
Later, only changed nodes are considered again. So the cost of a task depends on the changes by other tasks, not on
the size of the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

import numpy as np

from master.planning.free_table import FreeTable
from master.planning.need import Need
from master.planning.node_table import Mask
from master.planning.ranking import Ranking

FEW = 8
"""Up to this number of nodes, score one by one: after a rest, the first use of numpy costs more than it saves."""
SOME = 32


class Candidates:
    """The nodes that fit one ``need``, in the order of ``ranking``."""

    def __init__(self, free_table: FreeTable, need: Need, ranking: Ranking) -> None:
        self._free_table, self._need, self._ranking = free_table, need, ranking
        self._ledger, self._table = free_table.ledger, free_table.table
        self._eligible: Mask | list[bool]
        self._first: list[int] = []
        self._first_scores: list[float] = []
        self._next = 0
        self._changed: list[tuple[float, int, int]] = []  # score, node index, its last change
        self._sort(SOME)

    def best(self, seconds: float | None, expected: float | None = None) -> Iterator[tuple[int, int]]:
        """Yield (node index, number of tasks that fit there now), the best first.

        ``seconds``, ``expected``: the time limit of the task, and its estimate. Between two steps the caller may
        allocate on the yielded node. Left out are full nodes, and nodes that a reservation closes to such a task.
        """
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
                index = entry[1]
                count = self._ledger.count(self._need, index, seconds, expected)
                if count:
                    heappush(self._changed, entry)
                    yield index, count
                elif index in self._ledger.reservations:
                    kept.append(entry)  # a shorter task may still fit beside the reservation
        finally:
            for entry in kept:
                heappush(self._changed, entry)

    def _sort(self, most: int | None) -> None:
        """List the nodes in their present state, the best ``most`` of them (None: all)."""
        self._next, self._cut = 0, False
        self._built = self._seen = len(self._ledger.log)
        self._changed.clear()
        if len(self._table) > FEW:
            self._sort_many(most)
        else:
            self._sort_few()

    def _sort_many(self, most: int | None) -> None:
        eligible = self._eligible = self._table.eligible(self._need.shape)
        indexes = np.flatnonzero(self._free_table.fitting(self._need, eligible))
        scores = self._ranking.all()[indexes]
        self._cut = most is not None and len(indexes) > most
        if most is not None and self._cut:
            near = np.flatnonzero(scores <= np.partition(scores, most)[most])
            indexes, scores = indexes[near], scores[near]
        order = np.argsort(scores, kind="stable")[:most]
        self._first, self._first_scores = indexes[order].tolist(), scores[order].tolist()

    def _sort_few(self) -> None:
        table, shape = self._table, self._need.shape
        self._eligible = eligible = [table.is_eligible(shape, index) for index in range(len(table))]
        fitting = [index for index, is_eligible in enumerate(eligible) if is_eligible and self._fits(index)]
        found = sorted([(self._ranking.one(index), index) for index in fitting])
        self._first, self._first_scores = [index for _, index in found], [score for score, _ in found]

    def _catch_up(self) -> None:
        ledger = self._ledger
        if self._seen == len(ledger.log):
            return
        for index in set(ledger.log[self._seen :]):
            if self._eligible[index] and self._fits(index):
                heappush(self._changed, (self._ranking.one(index), index, ledger.last[index]))
        self._seen = len(ledger.log)

    def _fits(self, index: int) -> bool:
        return self._ledger.free_on(index).count(self._need, self._table.usable(self._need, index)) > 0

    def _pop(self) -> tuple[float, int, int] | None:
        """Return the best current entry.

        Drop outdated entries: their node changed, and has a newer entry or is full.
        """
        last, changed = self._ledger.last, self._changed
        while changed and changed[0][2] != last[changed[0][1]]:
            heappop(changed)
        if not self._spent():
            index, score = self._first[self._next], self._first_scores[self._next]
            if not changed or (score, index) < changed[0]:
                self._next += 1
                return score, index, last[index]
        return heappop(changed) if changed else None

    def _spent(self) -> bool:
        """Return whether every node in the list has changed since the list was made."""
        first, last, size = self._first, self._ledger.last, len(self._first)
        while self._next < size and last[first[self._next]] >= self._built:
            self._next += 1
        return self._next == size
