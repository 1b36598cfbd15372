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
from master.planning.ledger import GRAIN, NEVER, Floats, Ledger
from master.planning.need import GPU, PORTS, Need

GPU_WEIGHT = 16.0
"""What a node's GPUs are worth beside its cores or its memory, to a task that uses them."""
LONGER = 32.0 * GRAIN
"""More than any sum of shares: the worth of one step of ``_STEPS``."""
BREAKS_A_DEVICE = 1024.0 * GRAIN
"""More than all steps: a whole device is broken only where no shared one has room."""
_STEPS = [0.0, *(450.0 * 2**power for power in range(1, 14))]
"""Seconds by which a node may be kept busy longer. Limits are rough, so small differences say nothing."""
_MANY = 64


def length_of(seconds: float | None) -> float:
    """How long a task counts for placing: up to the next power of the root of two, so that few lists do for all."""
    if seconds is None or seconds >= NEVER:
        return NEVER
    return float(2.0 ** (ceil(2.0 * log2(max(seconds, 1.0))) / 2.0))


class Standings:
    """What a node has before anybody takes of it: what is free, as a sum of shares, and the steps. It is the same for
    all needs of one length and weight of GPUs, so it is kept and follows the log of changed nodes."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._kept: dict[tuple[float, float], tuple[Floats, int]] = {}

    def all(self, length: float, gpu_weight: float) -> Floats:
        """Not to be written to."""
        ledger, key = self.ledger, (length, gpu_weight)
        found, seen = self._kept.get(key, (None, 0))
        if found is None or len(ledger.log) - seen > _MANY:
            found = self._made(length, gpu_weight)
        else:
            for place in set(ledger.log[seen:]):
                found[place] = self.one(place, length, gpu_weight)
        self._kept[key] = found, len(ledger.log)
        return found

    def one(self, place: int, length: float, gpu_weight: float) -> float:
        """The same arithmetic in the same order as for all, so that the last bit is the same too."""
        ledger = self.ledger
        cpu, memory, gpu, disk = ledger.weights_of(place)
        row = ledger.room(place).row
        longer = LONGER * bisect_left(_STEPS, length - ledger.busy[place])
        return row[0] * cpu + row[1] * memory + row[2] * (gpu * gpu_weight) + row[3] * disk + longer

    def _made(self, length: float, gpu_weight: float) -> Floats:
        ledger = self.ledger
        ledger.sync()
        free, weights = ledger.free, ledger.weights
        made: Floats = free[:, 0] * weights[:, 0]
        made += free[:, 1] * weights[:, 1]
        made += free[:, 2] * (weights[:, 2] * gpu_weight)
        made += free[:, 3] * weights[:, 3]
        made += LONGER * np.searchsorted(_STEPS, length - ledger.busy_all)
        return made


class Ranking:
    """Of one need under one policy. ``fills``: a node that was chosen stays the best until it is full."""

    def __init__(self, standings: Standings, need: Need, policy: Policy, metric: str, length: float) -> None:
        self._standings = standings
        self._ledger = ledger = standings.ledger
        self._need = need
        self._length = length
        self._gpu_weight = GPU_WEIGHT if need.whole or need.share else 1.0
        self._wanted = [
            (c, amount * (self._gpu_weight if c == GPU else 1.0)) for c, amount in need.amounts if c < PORTS
        ]
        self._sign = 1 if policy is Policy.COMPACTED else -1
        self._column = ledger.columns.get(metric) if policy is not Policy.BEST_FIT else None
        self.fills = policy is not Policy.BALANCED
        self._by_metric = policy is not Policy.BEST_FIT
        self.step = float(dict(need.amounts).get(self._column, 0)) if self._column is not None else 1.0
        """By how much a node's number grows with each task, when balanced."""

    def all(self) -> Floats:
        ledger, need = self._ledger, self._need
        if self._by_metric:
            ledger.sync()
            if self._column is None:  # nobody has any of it
                return np.zeros(len(ledger.nodes))
            metric: Floats = self._sign * ledger.free[:, self._column].astype(np.float64)
            return metric
        scores = self._standings.all(self._length, self._gpu_weight)
        for column, amount in self._wanted:
            scores = scores - amount * ledger.weights[:, column]
        if need.share:
            ledger.sync()
            devices = ledger.devices
            shared = ((devices >= need.share) & (devices < DEVICE) & ledger.usable_devices(need)).any(axis=1)
            scores = scores + np.where(shared, 0.0, BREAKS_A_DEVICE)
        rounded: Floats = np.rint(scores)
        return rounded

    def one(self, place: int) -> float:
        ledger, need = self._ledger, self._need
        room = ledger.room(place)
        if self._by_metric:
            return 0.0 if self._column is None else float(self._sign * room.row[self._column])
        score = self._standings.one(place, self._length, self._gpu_weight)
        weights = ledger.weights_of(place)
        for column, amount in self._wanted:
            score -= amount * weights[column]
        if need.share and not any(need.share <= room.devices[device] < DEVICE for device in ledger.usable(need, place)):
            score += BREAKS_A_DEVICE
        return float(round(score))
