"""Amounts of resources: the total of a node, the need of a task. ``grass.model.amounts`` formats them.

Used by all packages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

DEVICE = 1000
"""One whole GPU. GPUs are counted in thousandths, as cores are, because a task may need a share of one GPU."""


@dataclass(frozen=True, slots=True)
class Resources:
    """Amounts. ``cpu`` in thousandths of a core, ``memory`` and ``disk`` in bytes, ``gpu`` in thousandths of a device.

    ``disk``: scratch. ``custom``: named countable resources (licences), as sorted pairs without zeros. All amounts are
    integers, so sums are exact.
    """

    cpu: int = 0
    memory: int = 0
    gpu: int = 0
    disk: int = 0
    custom: tuple[tuple[str, int], ...] = ()

    def __add__(self, other: Resources) -> Resources:
        custom = _merged(self.custom, other.custom, 1) if self.custom or other.custom else ()
        return Resources(
            self.cpu + other.cpu,
            self.memory + other.memory,
            self.gpu + other.gpu,
            self.disk + other.disk,
            custom,
        )

    def __sub__(self, other: Resources) -> Resources:
        custom = _merged(self.custom, other.custom, -1) if self.custom or other.custom else ()
        return Resources(
            self.cpu - other.cpu,
            self.memory - other.memory,
            self.gpu - other.gpu,
            self.disk - other.disk,
            custom,
        )

    def __mul__(self, times: int) -> Resources:
        custom = tuple((name, amount * times) for name, amount in self.custom) if times else ()
        return Resources(self.cpu * times, self.memory * times, self.gpu * times, self.disk * times, custom)

    def fits(self, within: Resources) -> bool:
        return (
            self.cpu <= within.cpu
            and self.memory <= within.memory
            and self.gpu <= within.gpu
            and self.disk <= within.disk
            and (not self.custom or all(amount <= within.amount(name) for name, amount in self.custom))
        )

    def amount(self, name: str) -> int:
        """Return the amount of one resource by its name; 0 for an unknown custom resource."""
        match name:
            case "cpu":
                return self.cpu
            case "memory":
                return self.memory
            case "gpu":
                return self.gpu
            case "disk":
                return self.disk
        return dict(self.custom).get(name, 0)

    def amounts(self) -> dict[str, int]:
        """Return every amount by name, the four built-in resources first."""
        return {"cpu": self.cpu, "memory": self.memory, "gpu": self.gpu, "disk": self.disk, **dict(self.custom)}

    def to_wire(self) -> dict[str, object]:
        wire: dict[str, object] = {"cpu": self.cpu, "memory": self.memory, "gpu": self.gpu}
        if self.disk:
            wire["disk"] = self.disk
        if self.custom:
            wire["custom"] = dict(self.custom)
        return wire

    @classmethod
    def from_wire(cls, wire: dict[str, Any]) -> Resources:  # Any: decoded JSON
        custom = tuple(sorted((name, amount) for name, amount in wire.get("custom", {}).items() if amount))
        return cls(wire["cpu"], wire["memory"], wire["gpu"], wire.get("disk", 0), custom)


def _merged(
    left: tuple[tuple[str, int], ...], right: tuple[tuple[str, int], ...], sign: int
) -> tuple[tuple[str, int], ...]:
    amounts = dict(left)
    for name, amount in right:
        amounts[name] = amounts.get(name, 0) + sign * amount
    return tuple(sorted((name, amount) for name, amount in amounts.items() if amount))
