"""Finds why each node cannot run one task of a shape, and groups nodes by cause. Used by ``Explainer``."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from grass.model.feasibility import NodeGroup
from grass.model.resources import DEVICE, Resources
from master.planning.free_table import FreeTable
from master.planning.model import Node, Shape
from master.planning.need import CPU, DISK, GPU, MEMORY, PORTS, Need
from master.planning.node_table import Ints, Mask, NodeTable, shortage

_GRAIN = {"cpu": 100, "memory": 1 << 20, "disk": 1 << 20}
"""Grain of the amounts that are suggested to a user: amounts are rounded to it."""


class Survey:
    """One shape over all nodes. ``matching``: the nodes that satisfy the shape's constraints.

    ``large``: the ``matching`` nodes that could run a task when empty. ``ready``: the ``large`` nodes that are open.
    ``fitting``: the ``ready`` nodes on which a task fits now, ignoring reservations.
    """

    def __init__(self, free_table: FreeTable, shape: Shape) -> None:
        free_table.sync()
        self._table = table = free_table.table
        self.need = need = table.need(shape)
        self._parts = table.constraints(shape)
        self.matching: Mask = np.ones(len(table), np.bool_)
        for _, part in self._parts:
            self.matching = self.matching & part
        self.large = self.matching & _large(table, need)
        self.ready = self.large & table.open
        self.shortages = _shortages(free_table, need)
        self.fitting = self.ready.copy()
        for _, short in self.shortages:
            self.fitting &= short <= 0
        self.any_fitting = bool(self.fitting.any())

    @cached_property
    def groups(self) -> list[NodeGroup]:
        """Return groups by the first cause that is found. Every node on which no task fits is in one group."""
        table = self._table
        rest = ~self.fitting
        groups: list[NodeGroup] = []
        for why, part in self._parts:
            rest = self._split(groups, why, rest, ~part)
        rest = self._split(groups, "too small", rest, ~self.large)
        lacking: list[NodeGroup] = []
        for name, short in self.shortages:
            found = rest & table.open & (short > 0)
            if name == "gpu" and found.any():
                withheld = found & (short <= table.withheld(self.need) * DEVICE)
                groups += self._alike(withheld, lambda node: node.withheld)
                found, rest = found & ~withheld, rest & ~withheld
            if found.any():
                nearest = int(np.argmin(np.where(found, short, np.iinfo(np.int64).max)))
                text = f"not enough {name}"
                group = NodeGroup(int(found.sum()), text, table.nodes[nearest].name, name, int(short[nearest]))
                lacking.append(group)
                rest &= ~found
        groups = self._alike(rest & ~table.open, lambda node: node.closed) + groups
        return sorted(lacking, key=lambda group: -group.count) + groups

    @cached_property
    def capacity(self) -> int:
        """How many such tasks the matching nodes run when empty, closed nodes included."""
        return int(self._table.capacities(self.need, self.matching).sum())

    def fits(self, reserved: frozenset[int]) -> tuple[str, int] | None:
        """Return one resource and its amount with which a task would start now: the smallest reduction that helps.

        ``reserved``: indexes of nodes with a reservation for other jobs.
        """
        table, need = self._table, self.need
        shortages = np.zeros(len(table), np.int64)
        for _, short in self.shortages:
            shortages += short > 0
        one = self.matching & table.open & (shortages == 1)
        one[list(reserved)] = False
        best: tuple[float, str, int] | None = None
        for name, short in self.shortages:
            found = one & (short > 0)
            if not found.any():
                continue
            wanted = need.shape.resources.amount(name)
            left = wanted - int(short[found].min())
            grain = DEVICE if name == "gpu" else _GRAIN.get(name, 1)
            left -= left % grain  # to 0 for a share of a device
            if left > 0 and (best is None or left / wanted > best[0]):
                best = (left / wanted, name, left)
        return best[1:] if best else None

    def _alike(self, which: Mask, why: Callable[[Node], str]) -> list[NodeGroup]:
        """Group nodes with the same cause."""
        found: dict[str, list[str]] = {}
        for index in np.flatnonzero(which).tolist():
            node = self._table.nodes[index]
            found.setdefault(why(node), []).append(node.name)
        return [NodeGroup(len(names), text, names[0]) for text, names in found.items()]

    def _split(self, groups: list[NodeGroup], why: str, rest: Mask, without: Mask) -> Mask:
        found = rest & without
        if found.any():
            first = int(np.argmax(found))
            groups.append(NodeGroup(int(found.sum()), why, self._table.nodes[first].name))
        return rest & ~without


def _large(table: NodeTable, need: Need) -> Mask:
    """Return the nodes that could run one such task when empty, ignoring constraints."""
    mask: Mask = np.ones(len(table), np.bool_)
    for column, amount in table.wanted(need):
        mask = mask & (shortage(table.total[:, column], amount) <= 0)
    if need.whole or need.fraction:
        mask = mask & (table.usable_devices(need).sum(axis=1) >= max(1, need.whole))
    return mask


def _shortages(free_table: FreeTable, need: Need) -> list[tuple[str, Ints]]:
    """Return each needed resource with the shortage of each node; 0 or less: the node has enough."""
    table = free_table.table
    names = {column: name for name, column in table.columns.items()}
    amounts = dict(table.wanted(need))
    order = [column for column in (GPU, MEMORY, CPU, DISK, *range(PORTS + 1, len(names)), PORTS) if column in amounts]
    found: list[tuple[str, Ints]] = []
    for column in order:
        short = shortage(free_table.amounts[:, column], amounts[column])
        if column == GPU:
            usable = free_table.devices * table.usable_devices(need)
            if need.whole:
                devices = need.whole * DEVICE - (usable >= DEVICE).sum(axis=1) * DEVICE
            else:
                devices = need.fraction - (usable.max(axis=1) if usable.shape[1] else np.zeros(len(usable), np.int64))
            short = np.maximum(short, devices)
        found.append((names[column], short))
    return found


def reduced(resources: Resources, name: str, amount: int) -> Resources:
    """Return the same resources with another amount of one resource."""
    wire = resources.to_wire()
    if name in ("cpu", "memory", "gpu", "disk"):
        wire[name] = amount
    else:
        wire["custom"] = {**dict(resources.custom), name: amount}
    return Resources.from_wire(wire)
