"""The nodes of a snapshot: facts that do not change during a plan. ``Ledger`` and ``FreeTable`` have allocations.

Nodes are in the order of their names, so that no answer depends on their order there. A node is identified by its
index in that order. Arrays are made on first use, because a plan for a few nodes needs no arrays. Used by this package
and ``master.agent``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from grass.model import feasibility
from grass.model.job import NODE_LEVEL, GpuNeed
from grass.model.namespace import NEEDS_IMAGE, has_share
from grass.model.resources import DEVICE
from master.planning.free_resources import UNLIMITED
from master.planning.model import Node, Shape
from master.planning.need import COLUMNS, PORTS, Need

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Constraint = tuple[str, object, Callable[[Node], bool]]
"""Why a node fails it, in words; a key that is equal for equal constraints; the test of a node."""
GRAIN = 1e9
"""Shares of nodes are counted in billionths, so that they can be compared as whole numbers."""


MOST_FASTER, MOST_SLOWER = 3, 8
"""Tenths of the speed of nodes like it, beyond which a further difference says nothing."""

_WITHOUT_IMAGE = attrgetter("without_image")
_CHECKABLE = attrgetter("checkable")


class NodeTable:
    """Nodes of a snapshot. ``columns``: name of an amount → its column. ``custom``: resources of queued tasks."""

    def __init__(self, nodes: Iterable[Node], custom: Sequence[str]) -> None:
        self.nodes = sorted(nodes, key=lambda node: node.name)
        self.columns = {name: column for column, name in enumerate((*COLUMNS, *custom))}
        self.custom = custom
        self._masks: dict[object, Mask] = {}
        self._needs: dict[str, Need] = {}
        self._domains: dict[int, tuple[Ints, list[tuple[str, ...]]]] = {}
        self._fits_empty: dict[str, bool] = {}
        self._weights: dict[int, tuple[float, ...]] = {}

    def __len__(self) -> int:
        return len(self.nodes)

    def need(self, shape: Shape) -> Need:
        found = self._needs.get(shape.key)
        if found is None:
            found = self._needs[shape.key] = Need(shape, self.columns)
        return found

    # one node

    def row(self, index: int) -> list[int]:
        """Return the free amounts of a node by column, as in the snapshot."""
        node = self.nodes[index]
        free = node.free
        row = [free.cpu, free.memory, free.gpu, free.disk, node.ports]
        if self.custom:
            amounts = dict(free.custom)
            row += [amounts.get(name, 0) for name in self.custom]
        return row

    def weights_of(self, index: int) -> tuple[float, ...]:
        """Return ``GRAIN`` over the total of each of the four amounts that all nodes have; 0 if the total is 0."""
        found = self._weights.get(index)
        if found is None:
            total = self.nodes[index].total
            sizes = (total.cpu, total.memory, total.gpu, total.disk)
            found = self._weights[index] = tuple([GRAIN / size if size > 0 else 0.0 for size in sizes])
        return found

    def is_eligible(self, shape: Shape, index: int) -> bool:
        """Return whether a node is open and satisfies a shape's constraints, regardless of free resources."""
        node = self.nodes[index]
        accepts = not node.closed or (node.checkable and shape.checks)
        return bool(accepts) and all(test(node) for _, _, test in _tests(shape))

    @cached_property
    def slowness(self) -> list[float] | None:
        """Return by how many tenths of its like's speed each node is slower; negative: faster. None: nothing is known
        of any."""
        if all(node.speed == 1.0 for node in self.nodes):
            return None
        return [float(max(-MOST_FASTER, min(MOST_SLOWER, round((1 - node.speed) * 10)))) for node in self.nodes]

    @cached_property
    def slownesses(self) -> Floats:
        """Return ``slowness`` as an array."""
        return np.array(self.slowness or [0.0] * len(self.nodes))

    @cached_property
    def slowest(self) -> list[int]:
        """Return the nodes that are slower than others like them, the slowest first."""
        slow = [(-each, index) for index, each in enumerate(self.slowness or ()) if each > 0]
        return [index for _, index in sorted(slow)]

    def usable(self, need: Need, index: int) -> tuple[int, ...]:
        """Return indexes of a node's devices that match a need."""
        return need.usable(self.nodes[index].kinds) if need.whole or need.fraction else ()

    # all nodes

    @cached_property
    def index_by_name(self) -> dict[str, int]:
        return {node.name: index for index, node in enumerate(self.nodes)}

    @cached_property
    def _packed(self) -> Ints:
        packed: Ints = np.frombuffer(b"".join([node.packed for node in self.nodes]), np.int64)
        return packed.reshape(len(self.nodes), 12)

    @cached_property
    def free(self) -> Ints:
        """Free amounts, nodes × columns, as in the snapshot."""
        return np.array(np.hstack((self._packed[:, :5], self._customs(lambda node: node.free.custom))), order="F")

    @cached_property
    def total(self) -> Ints:
        """Total amounts, nodes × columns."""
        return np.array(np.hstack((self._packed[:, 5:10], self._customs(lambda node: node.total.custom))), order="F")

    @cached_property
    def open(self) -> Mask:
        mask: Mask = self._packed[:, 10] == 1
        return mask

    @cached_property
    def _pods(self) -> Mask | None:
        """The nodes whose tasks are pods. None: there are none."""
        mask: Mask = self._packed[:, 11] == 1
        return mask if mask.any() else None

    def wanted(self, need: Need) -> list[tuple[int, int | Ints]]:
        """Return (column, amount) of what one task takes. The amounts of all nodes, where they are not the same."""
        pods = self._pods
        if pods is None:
            return [*need.amounts]
        plain = dict(need.amounts)
        return [(column, np.where(pods, amount, plain.get(column, 0))) for column, amount in need.in_pod]

    @cached_property
    def weights(self) -> Floats:
        """Weights of all nodes, as in ``weights_of``."""
        sizes = self.total[:, :4]
        return np.divide(GRAIN, sizes, out=np.zeros(sizes.shape, order="F"), where=sizes > 0)

    def eligible(self, shape: Shape) -> Mask:
        """Return a new array of the open nodes that satisfy a shape's constraints, regardless of free resources."""
        mask: Mask = self.open.copy()
        if shape.checks:
            mask |= self._mask("checkable", _CHECKABLE)
        for _, part in self.constraints(shape):
            mask &= part
        return mask

    def constraints(self, shape: Shape) -> list[tuple[str, Mask]]:
        """Return each constraint of a shape: why a node fails it, in words, and the nodes that satisfy it."""
        return [(text, self._mask(key, test)) for text, key, test in _tests(shape)]

    def fits_empty(self, need: Need) -> bool:
        """Return whether any eligible node could run one such task when empty."""
        found = self._fits_empty.get(need.shape.key)
        if found is None:
            found = self._fits_empty[need.shape.key] = bool(self.capacities(need).any())
        return found

    def capacities(self, need: Need, nodes: Mask | None = None) -> Ints:
        """Return how many such tasks each of the nodes runs when empty. ``nodes``: None for the eligible nodes."""
        most = np.where(self.eligible(need.shape) if nodes is None else nodes, UNLIMITED, 0)
        for column, amount in self.wanted(need):
            if column != PORTS:
                most = np.minimum(most, times(self.total[:, column], amount))
        if need.whole or need.fraction:
            devices = self.usable_devices(need).sum(axis=1)
            most = np.minimum(most, devices // need.whole if need.whole else devices * (DEVICE // need.fraction))
        return most

    @cached_property
    def devices(self) -> Ints:
        """Free thousandths of each device (nodes × most devices of a node), as in the snapshot."""
        width = max((len(node.devices) for node in self.nodes), default=0)
        packed = b"".join([node.packed_devices.ljust(width * 8, b"\0") for node in self.nodes])
        return np.frombuffer(packed, np.int64).reshape(len(self.nodes), width)

    def usable_devices(self, need: Need) -> Mask:
        """Return the devices that match a need (nodes × most devices of a node)."""
        gpu = need.shape.gpu
        key = ("devices", gpu)
        found = self._masks.get(key)
        if found is None:
            width = self.devices.shape[1]
            rows: dict[tuple[tuple[str, int], ...], list[bool]] = {}
            for node in self.nodes:
                if node.kinds not in rows:
                    able = [gpu.matches(*kind) for kind in node.kinds]
                    rows[node.kinds] = able + [False] * (width - len(able))
            found = np.array([rows[node.kinds] for node in self.nodes], np.bool_).reshape(len(self.nodes), width)
            self._masks[key] = found
        return found

    def withheld(self, need: Need) -> Ints:
        """Return how many devices of each node match a need, but are in quarantine or used by other programs."""
        counts: Ints = (self._withheld & self.usable_devices(need)).sum(axis=1)
        return counts

    @cached_property
    def _withheld(self) -> Mask:
        withheld: Mask = np.zeros(self.devices.shape, np.bool_)
        for index, node in enumerate(self.nodes):
            if node.withheld:
                withheld[index, : len(node.by_id)] = [not device.usable for device in node.by_id]
        return withheld

    def domains(self, level: int) -> tuple[Ints, list[tuple[str, ...]]]:
        """Return the topology at one level: the domain number of each node, and the domains in the order of names.

        A node with a shorter path is in the domain of its whole path.
        """
        found = self._domains.get(level)
        if found is None:
            keys = [(n.name,) if level == NODE_LEVEL else n.path[:level] for n in self.nodes]
            names = sorted(set(keys))
            numbers = {name: number for number, name in enumerate(names)}
            found = self._domains[level] = np.array([numbers[key] for key in keys], np.int64), names
        return found

    def _mask(self, key: object, test: Callable[[Node], bool]) -> Mask:
        found = self._masks.get(key)
        if found is None:
            found = self._masks[key] = np.fromiter(map(test, self.nodes), np.bool_, len(self.nodes))
        return found

    def _customs(self, of: Callable[[Node], tuple[tuple[str, int], ...]]) -> Ints:
        rows = []
        for node in self.nodes if self.custom else ():
            amounts = dict(of(node))
            rows.append([amounts.get(name, 0) for name in self.custom])
        return np.array(rows, np.int64).reshape(len(self.nodes), len(self.custom))


def shortage(free: Ints, amount: int | Ints) -> Ints:
    """Return how much is missing; 0 or less: enough is free, or none is wanted."""
    short: Ints = np.where(np.equal(amount, 0), 0, amount - free)
    return short


def times(free: Ints, amount: int | Ints) -> Ints:
    """Return how often an amount fits; where it is 0, without a limit."""
    found: Ints = np.where(np.equal(amount, 0), UNLIMITED, free // np.maximum(amount, 1))
    return found


def _tests(shape: Shape) -> list[Constraint]:
    """Return each constraint of a shape."""
    parts: list[Constraint] = []
    if shape.checks:
        only = shape.checks
        parts.append((f"only {only} is checked", ("checks", only), lambda node: node.name == only))
    if shape.avoid:
        avoided = frozenset(shape.avoid)
        parts.append(("named under `avoid`", ("avoid", shape.avoid), lambda node: node.name not in avoided))
    if shape.away_from:
        away = frozenset(shape.away_from)
        parts.append(("could not start it lately", ("away", shape.away_from), lambda node: node.name not in away))
    if shape.unchecked:
        unchecked = frozenset(shape.unchecked)
        why = "has not passed the check before tasks start there (it is being made, the node has tasks, or it failed)"
        parts.append((why, ("unchecked", shape.unchecked), lambda node: node.name not in unchecked))
    for label, values in shape.where:
        test = _label_test(label, frozenset(values))
        parts.append((f"label {label} is not {' or '.join(values)}", ("where", label, values), test))
    if len(shape.where) > 1:
        parts.append(
            ("no machine of the namespace has all of the labels", ("where", shape.where), _machine_test(shape))
        )
    parts += _runtime_tests(shape)
    for program in shape.programs:
        why = feasibility.lacks_program(program, shape.framework)
        parts.append((why, ("program", program, shape.framework), _program_test(program)))
    if shape.resources.gpu and (shape.gpu.model is not None or shape.gpu.memory):
        devices = max(1, -(-shape.resources.gpu // DEVICE))
        test = _gpu_test(shape.gpu, devices)
        parts.append(("too few GPUs of the requested model or memory", ("gpu", shape.gpu, devices), test))
    return parts


def _gpu_test(gpu: GpuNeed, devices: int) -> Callable[[Node], bool]:
    enough: dict[tuple[tuple[str, int], ...], bool] = {}

    def fitting(node: Node) -> bool:
        if node.kinds not in enough:
            enough[node.kinds] = sum(gpu.matches(*kind) for kind in node.kinds) >= devices
        return enough[node.kinds]

    return fitting


def _runtime_tests(shape: Shape) -> list[Constraint]:
    parts: list[Constraint] = []
    if shape.runtime is not None:
        runtime = shape.runtime.value
        parts.append((f"no {runtime} runtime", ("runtime", runtime), lambda node: runtime in node.runtimes))
    if not shape.has_image:
        parts.append((NEEDS_IMAGE, "without image", _WITHOUT_IMAGE))
    if shape.not_in_pods:
        test = _has_share if shape.share_helps else _is_no_namespace
        parts.append((shape.not_in_pods, ("not in pods", shape.share_helps), test))
    return parts


def _is_no_namespace(node: Node) -> bool:
    return not node.pods


def _has_share(node: Node) -> bool:
    return _is_no_namespace(node) or has_share(node.labels)


def _program_test(program: str) -> Callable[[Node], bool]:
    return lambda node: node.programs is None or program in node.programs


def _label_test(label: str, wanted: frozenset[str]) -> Callable[[Node], bool]:
    """A label that a namespace does not have itself may be one of its machines."""

    def has(node: Node) -> bool:
        if label in node.labels or not node.machines:
            return node.labels.get(label) in wanted
        return any(labels.get(label) in wanted for labels in node.machines)

    return has


def _machine_test(shape: Shape) -> Callable[[Node], bool]:
    where = [(label, frozenset(values)) for label, values in shape.where]

    def has(node: Node) -> bool:
        asked = [each for each in where if each[0] not in node.labels]
        if not node.machines or len(asked) < 2:
            return True
        return any(all(labels.get(label) in wanted for label, wanted in asked) for labels in node.machines)

    return has
