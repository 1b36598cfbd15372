"""The free amounts and devices of one node. The only code that allocates and releases them. Used by this package."""

from __future__ import annotations

from grass.model.resources import DEVICE
from master.planning.need import Need

UNLIMITED = 1 << 40
"""The number of tasks that fit if a task needs nothing."""

DeviceFractions = tuple[tuple[int, int], ...]
"""The devices of one task: (device index in the order of ids, thousandths)."""


class FreeResources:
    """Free resources of a node. ``row``: amounts by column (``need.COLUMNS``, then custom ones).

    ``devices``: free thousandths, by order of ids. A device that accepts no tasks (because a program other than Grass's
    runs on the device) has none free. ``pods``: whether the node is a namespace of Kubernetes.
    """

    __slots__ = ("devices", "pods", "row")

    def __init__(self, row: list[int], devices: list[int], *, pods: bool = False) -> None:
        self.row = row
        self.devices = devices
        self.pods = pods

    def copy(self) -> FreeResources:
        return FreeResources(self.row[:], self.devices[:], pods=self.pods)

    def minimum(self, other: FreeResources) -> FreeResources:
        """Return the resources that are free in both."""
        devices = [min(pair) for pair in zip(self.devices, other.devices, strict=True)]
        return FreeResources([min(pair) for pair in zip(self.row, other.row, strict=True)], devices, pods=self.pods)

    def count(self, need: Need, usable: tuple[int, ...]) -> int:
        """Return how many such tasks fit side by side.

        ``usable``: indexes of the matching devices (``Need.usable``).
        """
        most = UNLIMITED
        for column, amount in need.on(self.pods):
            times = self.row[column] // amount
            if times < most:
                most = times
        if most > 0 and (need.whole or need.fraction):
            most = min(most, self.count_devices(need, usable))
        return max(most, 0)

    def count_devices(self, need: Need, usable: tuple[int, ...]) -> int:
        """Return for how many tasks that use GPUs devices are free."""
        if need.whole:
            return sum(1 for device in usable if self.devices[device] >= DEVICE) // need.whole
        return sum(max(0, self.devices[device]) // need.fraction for device in usable)

    def choose(self, need: Need, usable: tuple[int, ...]) -> DeviceFractions:
        """Return the devices of one more task that fits: whole devices, or a share of the fullest sufficient device."""
        if need.whole:
            whole = [device for device in usable if self.devices[device] >= DEVICE]
            return tuple((device, DEVICE) for device in whole[: need.whole])
        if need.fraction:
            able = [device for device in usable if self.devices[device] >= need.fraction]
            return ((min(able, key=lambda device: self.devices[device]), need.fraction),)
        return ()

    def allocate(self, need: Need, times: int) -> None:
        for column, amount in need.on(self.pods):
            self.row[column] -= amount * times

    def move(self, fractions: DeviceFractions, sign: int) -> None:
        """Release devices (1) or allocate them (-1)."""
        for device, fraction in fractions:
            self.devices[device] += sign * fraction

    def reserve(self, need: Need, usable: tuple[int, ...], times: int) -> None:
        """Take the amounts and devices of ``times`` tasks, which must fit."""
        self.allocate(need, times)
        if need.whole or need.fraction:
            for _ in range(times):
                self.move(self.choose(need, usable), -1)
