"""Which of the nodes with room is the best: one number per node, the smaller the better.

``best-fit``: what would be left unused, as a sum of shares of the node's totals, so that large tasks find room later;
a share of a GPU goes rather where a device is shared already. ``single-metric-balanced``: the node with most left of
one metric. ``single-metric-compacted``: the node with least.
"""

from __future__ import annotations

import numpy as np

from grass.model.job import Policy
from grass.model.resources import DEVICE
from master.planning.ledger import Floats, Ledger
from master.planning.need import DISK, PORTS, Need

BREAKS_A_DEVICE = 16.0
"""More than any sum of shares: a whole device is broken only where no shared one has room."""


class Ranking:
    """Of one need under one policy. ``fills``: a node that was chosen stays the best until it is full."""

    def __init__(self, ledger: Ledger, need: Need, policy: Policy, metric: str) -> None:
        self._ledger = ledger
        self._need = need
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
        scores: Floats = ((ledger_free - wanted) * ledger.weights).sum(axis=1)
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
        score = 0.0
        for amount, weight in zip(left, weights, strict=True):
            score += amount * weight
        if need.share and not any(need.share <= room.devices[device] < DEVICE for device in ledger.usable(need, place)):
            score += BREAKS_A_DEVICE
        return round(score, 9)
