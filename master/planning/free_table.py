"""The free resources of all nodes, as arrays. Reads the ledger; allocates nothing.

Made on first use and updated by ``sync``: a plan for a few nodes asks the ledger about each node and needs no arrays.
Used by this package.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from grass.model.resources import DEVICE
from master.planning.free_resources import UNLIMITED
from master.planning.ledger import Ledger
from master.planning.need import Need
from master.planning.node_table import Floats, Ints, Mask, shortage, times


class FreeTable:
    """Arrays of free resources. ``amounts``, ``busy`` and ``devices`` have the state of the last ``sync``."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.table = ledger.table
        self._seen = 0
        self._devices: Ints | None = None

    @cached_property
    def amounts(self) -> Ints:
        """Free amounts, nodes × columns. ``sync`` writes to a copy of the snapshot's own array."""
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
        """Update the arrays from the ledger."""
        ledger, devices = self.ledger, self._devices
        amounts, busy = self.amounts, self.busy
        for index in set(ledger.log[self._seen :]):
            free = ledger.free_on(index)
            busy[index], amounts[index] = ledger.busy[index], free.row
            if devices is not None and free.devices:
                devices[index, : len(free.devices)] = free.devices
        self._seen = len(ledger.log)

    def fitting(self, need: Need, eligible: Mask) -> Mask:
        """Return the eligible nodes on which at least one such task fits now, ignoring reservations."""
        self.sync()
        mask = eligible
        for column, amount in self.table.wanted(need):
            mask = mask & (shortage(self.amounts[:, column], amount) <= 0)
        if need.whole or need.fraction:
            indexes, mask = np.flatnonzero(mask), mask.copy()
            usable = self.devices[indexes] >= (need.fraction or DEVICE)
            usable &= self.table.usable_devices(need)[indexes]
            mask[indexes] = usable.sum(axis=1) >= max(1, need.whole)
        return mask

    def counts(self, need: Need) -> Ints:
        """Return how many such tasks fit on each node now, ignoring reservations."""
        self.sync()
        most = np.where(self.table.eligible(need.shape), UNLIMITED, 0)
        for column, amount in self.table.wanted(need):
            most = np.minimum(most, times(self.amounts[:, column], amount))
        if need.whole:
            most = np.minimum(most, self._whole(need).sum(axis=1) // need.whole)
        elif need.fraction:
            most = np.minimum(most, ((self.devices // need.fraction) * self.table.usable_devices(need)).sum(axis=1))
        return np.maximum(most, 0)

    def shortages(self, need: Need) -> Floats:
        """Return how much must become free on each node for one task, as a sum of shares of the task's need."""
        self.sync()
        shortages: Floats = np.zeros(len(self.table))
        for column, amount in self.table.wanted(need):
            shortages += np.maximum(shortage(self.amounts[:, column], amount), 0) / np.maximum(amount, 1)
        if need.whole:
            shortages += np.maximum(need.whole - self._whole(need).sum(axis=1), 0) / need.whole
        return shortages

    def _whole(self, need: Need) -> Mask:
        whole: Mask = (self.devices >= DEVICE) & self.table.usable_devices(need)
        return whole
