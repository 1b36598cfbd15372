"""What all nodes have free, as arrays. Reads the ledger; allocates nothing.

Made on first use and brought up to date by ``sync``: a plan for a few nodes asks the ledger about each and needs none.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from grass.model.resources import DEVICE
from master.planning.free_resources import UNLIMITED
from master.planning.ledger import Ledger
from master.planning.need import Need
from master.planning.node_table import Floats, Ints, Mask


class FreeTable:
    """``amounts``, ``busy`` and ``devices`` are as they were at the last ``sync``."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.table = ledger.table
        self._seen = 0
        self._devices: Ints | None = None

    @cached_property
    def amounts(self) -> Ints:
        """Nodes × columns. ``sync`` writes to a copy of the view's own array."""
        amounts: Ints = self.table.free.copy(order="F")
        return amounts

    @cached_property
    def busy(self) -> Floats:
        """``Ledger.busy`` as an array."""
        return np.array(self.ledger.busy, np.float64)

    @property
    def devices(self) -> Ints:
        """Free thousandths of each device (nodes × most devices of a node)."""
        if self._devices is None:
            self._devices = self.table.devices.copy()
            self._seen = 0
            self.sync()
        return self._devices

    def sync(self) -> None:
        """Bring the arrays up to the ledger."""
        ledger, devices = self.ledger, self._devices
        amounts, busy = self.amounts, self.busy
        for index in set(ledger.log[self._seen :]):
            free = ledger.free_on(index)
            busy[index], amounts[index] = ledger.busy[index], free.row
            if devices is not None and free.devices:
                devices[index, : len(free.devices)] = free.devices
        self._seen = len(ledger.log)

    def fitting(self, need: Need, eligible: Mask) -> Mask:
        """The eligible nodes on which at least one such task fits now, reservations aside."""
        self.sync()
        mask = eligible
        for column, amount in need.amounts:
            mask = mask & (self.amounts[:, column] >= amount)
        if need.whole or need.share:
            indexes, mask = np.flatnonzero(mask), mask.copy()
            usable = self.devices[indexes] >= (need.share or DEVICE)
            usable &= self.table.usable_devices(need)[indexes]
            mask[indexes] = usable.sum(axis=1) >= max(1, need.whole)
        return mask

    def counts(self, need: Need) -> Ints:
        """How many such tasks fit on each node now, reservations aside."""
        self.sync()
        most = np.where(self.table.eligible(need.shape), UNLIMITED, 0)
        for column, amount in need.amounts:
            most = np.minimum(most, self.amounts[:, column] // amount)
        if need.whole:
            most = np.minimum(most, self._whole(need).sum(axis=1) // need.whole)
        elif need.share:
            most = np.minimum(most, ((self.devices // need.share) * self.table.usable_devices(need)).sum(axis=1))
        return np.maximum(most, 0)

    def shortages(self, need: Need) -> Floats:
        """How much must become free on each node for one task, as a sum of shares of what it needs."""
        self.sync()
        shortages: Floats = np.zeros(len(self.table))
        for column, amount in need.amounts:
            shortages += np.maximum(amount - self.amounts[:, column], 0) / amount
        if need.whole:
            shortages += np.maximum(need.whole - self._whole(need).sum(axis=1), 0) / need.whole
        return shortages

    def _whole(self, need: Need) -> Mask:
        whole: Mask = (self.devices >= DEVICE) & self.table.usable_devices(need)
        return whole
