"""Amounts of what a node has and a task needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Resources:
    """``cpu`` in thousandths of a core, ``memory`` in bytes, ``gpu`` in whole devices. Integers, so sums are exact."""

    cpu: int = 0
    memory: int = 0
    gpu: int = 0

    def __add__(self, other: Resources) -> Resources:
        return Resources(self.cpu + other.cpu, self.memory + other.memory, self.gpu + other.gpu)

    def __sub__(self, other: Resources) -> Resources:
        return Resources(self.cpu - other.cpu, self.memory - other.memory, self.gpu - other.gpu)

    def __mul__(self, times: int) -> Resources:
        return Resources(self.cpu * times, self.memory * times, self.gpu * times)

    def fits(self, within: Resources) -> bool:
        return self.cpu <= within.cpu and self.memory <= within.memory and self.gpu <= within.gpu

    def times_within(self, within: Resources) -> int | None:
        """How many of these fit side by side; None when this needs nothing, so any number does."""
        counts = [
            have // need
            for have, need in ((within.cpu, self.cpu), (within.memory, self.memory), (within.gpu, self.gpu))
            if need > 0
        ]
        return max(0, min(counts)) if counts else None

    def to_wire(self) -> dict[str, int]:
        return {"cpu": self.cpu, "memory": self.memory, "gpu": self.gpu}

    @classmethod
    def from_wire(cls, wire: dict[str, Any]) -> Resources:
        return cls(wire["cpu"], wire["memory"], wire["gpu"])


def show_cpu(milli: int) -> str:
    return f"{milli / 1000:g}"


def show_memory(size: int) -> str:
    """Bytes as a person writes them: ``512MiB``, ``1.5GiB``."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{size / factor:.4g}{unit}"
    return f"{size}B"
