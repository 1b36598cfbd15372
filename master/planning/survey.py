"""Why each node cannot take one task of a shape, grouped. Says only what the ledger shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from grass.model.resources import DEVICE, Resources, show_cpu, show_gpu, show_memory
from master.planning.ledger import Ints, Ledger, Mask
from master.planning.model import Node, Shape
from master.planning.need import CPU, DISK, GPU, MEMORY, PORTS, Need

_SHOW: dict[str, Callable[[int], str]] = {
    "cpu": show_cpu,
    "memory": show_memory,
    "gpu": show_gpu,
    "disk": show_memory,
}
_GRAIN = {"cpu": 100, "memory": 1 << 20, "disk": 1 << 20}
"""What a person would round a smaller wish to."""


def show(name: str, amount: int) -> str:
    return f"{_SHOW.get(name, str)(amount)} {name}"


def show_seconds(seconds: float) -> str:
    """As a person writes it: ``40s``, ``12min``, ``3.5h``."""
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.3g}{unit}"
    return f"{seconds:.3g}s"


@dataclass(frozen=True)
class Group:
    """``count`` nodes that lack the same. ``short``: how much of ``resource`` the nearest of them is short."""

    count: int
    why: str
    nearest: str
    resource: str = ""
    short: int = 0

    def __str__(self) -> str:
        if self.count == 1:
            return f"{self.nearest}: {show(self.resource, self.short)} short" if self.resource else self.text
        return f"{self.count} nodes: {self.text}"

    @property
    def text(self) -> str:
        if not self.resource:
            return self.why if self.count > 1 else f"{self.nearest}: {self.why}"
        return f"{self.why}, nearest is {self.nearest}, {_SHOW.get(self.resource, str)(self.short)} short"

    def to_wire(self) -> dict[str, Any]:
        wire: dict[str, Any] = {"count": self.count, "why": self.why, "nearest": self.nearest}
        if self.resource:
            wire |= {"resource": self.resource, "short": self.short}
        return wire


class Survey:
    """Of one shape over all nodes, at the end of a plan. ``suited``: the nodes that satisfy its constraints;
    ``large``: those of them that could hold a task when empty; ``ready``: those of these that are open;
    ``roomy``: those of these on which a task fits now, promises aside."""

    def __init__(self, ledger: Ledger, shape: Shape) -> None:
        ledger.sync()
        self._ledger = ledger
        self.need = need = ledger.need(shape)
        self._parts = ledger.constraints(shape)
        self.suited: Mask = np.ones(len(ledger.nodes), np.bool_)
        for _, part in self._parts:
            self.suited = self.suited & part
        self.large = self.suited & _holds(ledger, need)
        self.ready = self.large & ledger.open
        self.lacks = _lacks(ledger, need)
        self.roomy = self.ready.copy()
        for _, short in self.lacks:
            self.roomy &= short <= 0
        self.any_roomy = bool(self.roomy.any())

    @cached_property
    def groups(self) -> list[Group]:
        """Every node that is not roomy is in one group: the first thing that keeps the task from it."""
        ledger = self._ledger
        rest = ~self.roomy
        groups: list[Group] = []
        for why, part in self._parts:
            rest = self._split(groups, why, rest, ~part)
        rest = self._split(groups, "too small", rest, ~self.large)
        lacking: list[Group] = []
        for name, short in self.lacks:
            found = rest & ledger.open & (short > 0)
            if name == "gpu" and found.any():
                ill = found & (short <= ledger.quarantined(self.need) * DEVICE)
                groups += self._alike(ill, lambda node: node.quarantine)
                found, rest = found & ~ill, rest & ~ill
            if found.any():
                nearest = int(np.argmin(np.where(found, short, np.iinfo(np.int64).max)))
                text = f"not enough {name}"
                group = Group(int(found.sum()), text, ledger.nodes[nearest].name, name, int(short[nearest]))
                lacking.append(group)
                rest &= ~found
        groups = self._alike(rest & ~ledger.open, lambda node: node.closed) + groups
        return sorted(lacking, key=lambda group: -group.count) + groups

    def fits(self, avoid: frozenset[int]) -> tuple[str, int] | None:
        """The one resource, and how much of it, with which a task would start now: the smallest cut that helps.

        ``avoid``: nodes on which something is promised to others."""
        ledger, need = self._ledger, self.need
        shortages = np.zeros(len(ledger.nodes), np.int64)
        for _, short in self.lacks:
            shortages += short > 0
        one = self.suited & ledger.open & (shortages == 1)
        one[list(avoid)] = False
        best: tuple[float, str, int] | None = None
        for name, short in self.lacks:
            if name == "ports" or (need.share and name == "gpu"):
                continue
            found = one & (short > 0)
            if not found.any():
                continue
            wanted = need.shape.resources.amount(name)
            left = wanted - int(short[found].min())
            grain = DEVICE if name == "gpu" else _GRAIN.get(name, 1)
            left -= left % grain
            if left > 0 and (best is None or left / wanted > best[0]):
                best = (left / wanted, name, left)
        return best[1:] if best else None

    def _alike(self, which: Mask, why: Callable[[Node], str]) -> list[Group]:
        """Nodes of which the same is to be said, together."""
        found: dict[str, list[str]] = {}
        for place in np.flatnonzero(which).tolist():
            node = self._ledger.nodes[place]
            found.setdefault(why(node), []).append(node.name)
        return [Group(len(names), text, names[0]) for text, names in found.items()]

    def _split(self, groups: list[Group], why: str, rest: Mask, without: Mask) -> Mask:
        found = rest & without
        if found.any():
            first = int(np.argmax(found))
            groups.append(Group(int(found.sum()), why, self._ledger.nodes[first].name))
        return rest & ~without


def _holds(ledger: Ledger, need: Need) -> Mask:
    """Which nodes could hold one such task if they were empty."""
    mask: Mask = np.ones(len(ledger.nodes), np.bool_)
    for column, amount in need.amounts:
        mask = mask & (ledger.total[:, column] >= amount)
    if need.whole or need.share:
        mask = mask & (ledger.usable_devices(need).sum(axis=1) >= max(1, need.whole))
    return mask


def _lacks(ledger: Ledger, need: Need) -> list[tuple[str, Ints]]:
    """Per resource that is needed how much each node is short; nothing or less: it has enough."""
    names = {column: name for name, column in ledger.columns.items()}
    amounts = dict(need.amounts)
    order = [column for column in (GPU, MEMORY, CPU, DISK, *range(PORTS + 1, len(names)), PORTS) if column in amounts]
    found: list[tuple[str, Ints]] = []
    for column in order:
        short: Ints = amounts[column] - ledger.free[:, column]
        if column == GPU:
            usable = ledger.devices * ledger.usable_devices(need)
            if need.whole:
                devices = need.whole * DEVICE - (usable >= DEVICE).sum(axis=1) * DEVICE
            else:
                devices = need.share - (usable.max(axis=1) if usable.shape[1] else np.zeros(len(usable), np.int64))
            short = np.maximum(short, devices)
        found.append((names[column], short))
    return found


def reduced(resources: Resources, name: str, amount: int) -> Resources:
    """The same, with another amount of one resource."""
    wire = resources.to_wire()
    if name in ("cpu", "memory", "gpu", "disk"):
        wire[name] = amount
    else:
        wire["custom"] = {**dict(resources.custom), name: amount}
    return Resources.from_wire(wire)
