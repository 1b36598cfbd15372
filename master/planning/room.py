"""What one node has left: its amounts and its devices. The only place where they are given and taken."""

from __future__ import annotations

from grass.model.resources import DEVICE
from master.planning.need import Need

ENDLESS = 1 << 40
"""How often something fits that needs nothing."""

Shares = tuple[tuple[int, int], ...]
"""What one task holds of a node's devices: (place in the order of ids, thousandths)."""


class Room:
    """``row``: amounts by column (``need.COLUMNS``, then custom ones). ``devices``: free thousandths, by order of ids.

    A device that takes nothing (somebody else's program runs on it) has none free.
    """

    __slots__ = ("devices", "row")

    def __init__(self, row: list[int], devices: list[int]) -> None:
        self.row = row
        self.devices = devices

    def copy(self) -> Room:
        return Room(self.row[:], self.devices[:])

    def meet(self, other: Room) -> Room:
        """What is free in both."""
        devices = [min(pair) for pair in zip(self.devices, other.devices, strict=True)]
        return Room([min(pair) for pair in zip(self.row, other.row, strict=True)], devices)

    def count(self, need: Need, usable: tuple[int, ...]) -> int:
        """How many such tasks fit side by side. ``usable``: the devices that will do (``Need.usable``)."""
        most = ENDLESS
        for column, amount in need.amounts:
            times = self.row[column] // amount
            if times < most:
                most = times
        if most > 0 and (need.whole or need.share):
            most = min(most, self.count_devices(need, usable))
        return max(most, 0)

    def count_devices(self, need: Need, usable: tuple[int, ...]) -> int:
        """For how many tasks that use GPUs there are devices."""
        if need.whole:
            return sum(1 for place in usable if self.devices[place] >= DEVICE) // need.whole
        return sum(max(0, self.devices[place]) // need.share for place in usable)

    def choose(self, need: Need, usable: tuple[int, ...]) -> Shares:
        """The devices of one more task that fits: whole ones, or a share of the one that has the least left for it."""
        if need.whole:
            free = [place for place in usable if self.devices[place] >= DEVICE]
            return tuple((place, DEVICE) for place in free[: need.whole])
        if need.share:
            able = [place for place in usable if self.devices[place] >= need.share]
            return ((min(able, key=lambda place: self.devices[place]), need.share),)
        return ()

    def take(self, need: Need, times: int) -> None:
        for column, amount in need.amounts:
            self.row[column] -= amount * times

    def move(self, shares: Shares, sign: int) -> None:
        """Give devices back (1) or take them (-1)."""
        for place, share in shares:
            self.devices[place] += sign * share

    def reserve(self, need: Need, usable: tuple[int, ...], times: int) -> None:
        """Take the amounts and devices of ``times`` tasks, which fit."""
        self.take(need, times)
        if need.whole or need.share:
            for _ in range(times):
                self.move(self.choose(need, usable), -1)
