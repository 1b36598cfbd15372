"""Ranks the nodes on which a task fits: one number per node; the smallest is best. Used by ``Finder``.

``best-fit`` first prefers nodes that stay busy for the whole task, or that the task keeps busy for the least extra
time, so that whole nodes become empty. Among these nodes, the node with the least left over wins, as a sum of shares of
its totals; GPUs weigh most for a task that uses GPUs. So large tasks and gangs fit later. A share of a GPU prefers a
device that is already shared. Tasks of a gang, which are as fast as their slowest node, prefer nodes that were measured
to be faster; that counts more than what is left over, and less than whole nodes that stay empty.
``single-metric-balanced``: the node with the most left of one metric. ``single-metric-compacted``: with the least.
"""

from __future__ import annotations

from bisect import bisect_left
from math import ceil, log2

import numpy as np

from grass.model.job import Policy
from grass.model.resources import DEVICE
from master.planning.free_table import FreeTable
from master.planning.ledger import NEVER
from master.planning.need import GPU, PORTS, Need
from master.planning.node_table import GRAIN, Floats

GPU_WEIGHT = 16.0
"""Weight of a node's GPUs, relative to its cores or its memory, for a task that uses GPUs."""
SLOWER = 20.0 * GRAIN
"""Weight of a tenth of the speed of a node: more than any sum of shares."""
LONGER = 256.0 * GRAIN
"""Weight of one step of ``_STEPS``: more than any sum of shares, and of all tenths of speed."""
BREAKS_A_DEVICE = 8192.0 * GRAIN
"""More than all steps: a whole device becomes shared only if no shared device suffices."""
_STEPS = [0.0, *(450.0 * 2**power for power in range(1, 14))]
"""Steps, in seconds, of the extra time that a task keeps a node busy. Time limits are rough, so small differences
mean nothing.
"""
_MANY = 64


def length_of(seconds: float | None) -> float:
    """Round a time limit up to the next power of the square root of two, so that few lists serve all tasks."""
    if seconds is None or seconds >= NEVER:
        return NEVER
    return float(2.0 ** (ceil(2.0 * log2(max(seconds, 1.0))) / 2.0))


class BaseScores:
    """The part of a node's score that does not depend on the need: free resources, as a sum of shares, and steps.

    All needs of one length and GPU weight have the same base scores, so these are cached and follow the log of changes.
    """

    def __init__(self, free_table: FreeTable) -> None:
        self.free_table = free_table
        self.ledger = free_table.ledger
        self.table = free_table.table
        self._kept: dict[tuple[float, float], tuple[Floats, int]] = {}

    def all(self, length: float, gpu_weight: float) -> Floats:
        """Return the scores of all nodes. The caller must not write to the array."""
        ledger, key = self.ledger, (length, gpu_weight)
        found, seen = self._kept.get(key, (None, 0))
        if found is None or len(ledger.log) - seen > _MANY:
            found = self._made(length, gpu_weight)
        else:
            for index in set(ledger.log[seen:]):
                found[index] = self.one(index, length, gpu_weight)
        self._kept[key] = found, len(ledger.log)
        return found

    def one(self, index: int, length: float, gpu_weight: float) -> float:
        """Return the score of one node, with the arithmetic and order of ``all``: even the last bit is equal."""
        ledger = self.ledger
        cpu, memory, gpu, disk = self.table.weights_of(index)
        row = ledger.free_on(index).row
        longer = LONGER * bisect_left(_STEPS, length - ledger.busy[index])
        return row[0] * cpu + row[1] * memory + row[2] * (gpu * gpu_weight) + row[3] * disk + longer

    def _made(self, length: float, gpu_weight: float) -> Floats:
        self.free_table.sync()
        free, weights = self.free_table.amounts, self.table.weights
        made: Floats = free[:, 0] * weights[:, 0]
        made += free[:, 1] * weights[:, 1]
        made += free[:, 2] * (weights[:, 2] * gpu_weight)
        made += free[:, 3] * weights[:, 3]
        made += LONGER * np.searchsorted(_STEPS, length - self.free_table.busy)
        return made


class Ranking:
    """Scores for one need under one policy. ``fills``: a chosen node stays the best until the node is full.

    ``fast``: whether best-fit prefers faster nodes."""

    def __init__(
        self, base: BaseScores, need: Need, policy: Policy, metric: str, length: float, *, fast: bool = False
    ) -> None:
        self._base = base
        self._ledger, self._table, self._free_table = base.ledger, base.table, base.free_table
        self._need = need
        self._length = length
        self._gpu_weight = GPU_WEIGHT if need.whole or need.fraction else 1.0
        self._wanted = [
            (c, amount * (self._gpu_weight if c == GPU else 1.0)) for c, amount in need.amounts if c < PORTS
        ]
        self._sign = 1 if policy is Policy.COMPACTED else -1
        self._column = base.table.columns.get(metric) if policy is not Policy.BEST_FIT else None
        self.fills = policy is not Policy.BALANCED
        self._by_metric = policy is not Policy.BEST_FIT
        self._slowness = base.table.slowness if fast else None
        self.step = float(dict(need.amounts).get(self._column, 0)) if self._column is not None else 1.0
        """Increase of a node's score with each task, under the balanced policy."""

    def all(self) -> Floats:
        need, free_table = self._need, self._free_table
        if self._by_metric:
            free_table.sync()
            if self._column is None:  # no node has any of it
                return np.zeros(len(self._table))
            metric: Floats = self._sign * free_table.amounts[:, self._column].astype(np.float64)
            return metric
        scores = self._base.all(self._length, self._gpu_weight)
        for column, amount in self._wanted:
            scores = scores - amount * self._table.weights[:, column]
        if need.fraction:
            free_table.sync()
            devices = free_table.devices
            shared = ((devices >= need.fraction) & (devices < DEVICE) & self._table.usable_devices(need)).any(axis=1)
            scores = scores + np.where(shared, 0.0, BREAKS_A_DEVICE)
        if self._slowness is not None:
            scores = scores + SLOWER * self._table.slownesses
        rounded: Floats = np.rint(scores)
        return rounded

    def one(self, index: int) -> float:
        need, free = self._need, self._ledger.free_on(index)
        if self._by_metric:
            return 0.0 if self._column is None else float(self._sign * free.row[self._column])
        score = self._base.one(index, self._length, self._gpu_weight)
        weights = self._table.weights_of(index)
        for column, amount in self._wanted:
            score -= amount * weights[column]
        if need.fraction:
            usable = self._table.usable(need, index)
            if not any(need.fraction <= free.devices[device] < DEVICE for device in usable):
                score += BREAKS_A_DEVICE
        if self._slowness is not None:
            score += SLOWER * self._slowness[index]
        return float(round(score))
