"""Which of the nodes with room is the best: one number per node, the smaller the better.

``best-fit``: first the nodes that are busy as long as the task may take anyway, or that it keeps busy least longer, so
that nodes become empty as a whole; of these the one of which least would be left unused, as a sum of shares of the
node's totals, where GPUs weigh most for a task that uses them. So large tasks and gangs find room later. A share of a
GPU goes rather where a device is shared already. ``single-metric-balanced``: the node with most left of one metric.
``single-metric-compacted``: the node with least.
"""

from __future__ import annotations

from bisect import bisect_left
from math import ceil, log2

import numpy as np

from grass.model.job import Policy
from grass.model.resources import DEVICE
from master.planning.ledger import NEVER, Floats, Ledger
from master.planning.need import DISK, GPU, PORTS, Need

GPU_WEIGHT = 16.0
"""What a node's GPUs are worth beside its cores or its memory, to a task that uses them."""
LONGER = 32.0
"""More than any sum of shares: the worth of one step of ``_STEPS``."""
BREAKS_A_DEVICE = 1024.0
"""More than all steps: a whole device is broken only where no shared one has room."""
_STEPS = [0.0, *(450.0 * 2**power for power in range(1, 14))]
"""Seconds by which a node may be kept busy longer. Limits are rough, so small differences say nothing."""


def length_of(seconds: float | None) -> float:
    """How long a task counts for placing: up to the next power of the root of two, so that few lists do for all."""
    if seconds is None or seconds >= NEVER:
        return NEVER
    return float(2.0 ** (ceil(2.0 * log2(max(seconds, 1.0))) / 2.0))


class Ranking:
    """Of one need under one policy. ``fills``: a node that was chosen stays the best until it is full."""

    def __init__(self, ledger: Ledger, need: Need, policy: Policy, metric: str, length: float) -> None:
        self._ledger = ledger
        self._need = need
        self._length = length
        self._gpu_weight = GPU_WEIGHT if need.whole or need.share else 1.0
        self._sign = 1 if policy is Policy.COMPACTED else -1
        self._column = ledger.columns.get(metric) if policy is not Policy.BEST_FIT else None
        self.fills = policy is not Policy.BALANCED
        self._by_metric = policy is not Policy.BEST_FIT
        self.step = float(dict(need.amounts).get(self._column, 0)) if self._column is not None else 1.0
        """By how much a node's number grows with each task, when balanced."""

    def all(self) -> Floats:
        ledger, need = self._ledger, self._need
        ledger.sync()
        if self._by_metric:
            if self._column is None:  # nobody has any of it
                return np.zeros(len(ledger.nodes))
            metric: Floats = self._sign * ledger.free[:, self._column].astype(np.float64)
            return metric
        ledger_free = ledger.free[:, : DISK + 1]
        wanted = np.zeros(DISK + 1, np.int64)
        for column, amount in need.amounts:
            if column < PORTS:
                wanted[column] = amount
        shares = (ledger_free - wanted) * ledger.weights
        if self._gpu_weight != 1.0:
            shares[:, GPU] *= self._gpu_weight
        scores: Floats = shares.sum(axis=1) + LONGER * np.searchsorted(_STEPS, self._length - ledger.busy_all)
        if need.share:
            devices = ledger.devices
            shared = ((devices >= need.share) & (devices < DEVICE) & ledger.usable_devices(need)).any(axis=1)
            scores = scores + np.where(shared, 0.0, BREAKS_A_DEVICE)
        rounded: Floats = scores.round(9)
        return rounded

    def one(self, place: int) -> float:
        ledger, need = self._ledger, self._need
        room = ledger.room(place)
        if self._by_metric:
            return 0.0 if self._column is None else float(self._sign * room.row[self._column])
        left = room.row[: DISK + 1]
        for column, amount in need.amounts:
            if column < PORTS:
                left[column] -= amount
        weights = ledger.weights_of(place)
        score = left[GPU] * weights[GPU] * (self._gpu_weight - 1.0)
        for amount, weight in zip(left, weights, strict=True):
            score += amount * weight
        score += LONGER * bisect_left(_STEPS, self._length - ledger.busy[place])
        if need.share and not any(need.share <= room.devices[device] < DEVICE for device in ledger.usable(need, place)):
            score += BREAKS_A_DEVICE
        return round(score, 9)
