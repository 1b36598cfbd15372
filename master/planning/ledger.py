"""What every node has left while a plan is made: nothing is given twice.

One node is read and written as a ``Room``; all nodes at once as arrays, for the questions that concern all of them.
Nodes are in the order of their names, so that no answer depends on the order in which they came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from grass.model.job import NODE_LEVEL
from grass.model.resources import DEVICE
from master.planning.gates import Gate
from master.planning.model import DeviceShares, Held, Node, Shape
from master.planning.need import COLUMNS, PORTS, Need, matches
from master.planning.room import ENDLESS, Room

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
NEVER = 1e12
"""Seconds until the end of what has no known end."""


class Ledger:
    """``columns``: name of an amount → its column. ``log``: the nodes that changed, in order; ``last``: where in it a
    node stands last (-1: nowhere). ``gates``: node → what has been promised there to somebody who cannot start yet.
    ``busy``: for how many seconds each node is not empty at most (0: it is now); ``busy_all``: the same as an array.
    """

    def __init__(
        self, nodes: Iterable[Node], shapes: Iterable[Shape], held: Iterable[Held] = (), now: float = 0.0
    ) -> None:
        self.nodes = sorted(nodes, key=lambda node: node.name)
        custom = sorted({name for shape in shapes for name, _ in shape.resources.custom})
        self.columns = {name: column for column, name in enumerate((*COLUMNS, *custom))}
        packed = np.frombuffer(b"".join([node.packed for node in self.nodes]), np.int64).reshape(len(self.nodes), 11)
        self.free: Ints = packed[:, :5].copy()
        self.total: Ints = packed[:, 5:10]
        self.open: Mask = packed[:, 10] == 1
        sizes = self.total[:, :4]
        self.weights: Floats = np.divide(1.0, sizes, out=np.zeros(sizes.shape), where=sizes > 0)
        if custom:
            self.free = np.hstack((self.free, self._custom(custom, lambda node: node.free.custom)))
            self.total = np.hstack((self.total, self._custom(custom, lambda node: node.total.custom)))
        self.gates: dict[int, list[Gate]] = {}
        self.log: list[int] = []
        self.last = [-1] * len(self.nodes)
        self.busy = self._busy(held, now)
        self.busy_all: Floats = np.array(self.busy, np.float64)
        self._rooms: dict[int, Room] = {}
        self._behind: set[int] = set()
        self._undo: list[tuple[int, float, list[tuple[Room, Room]]]] = []
        self._depth = 0
        self._masks: dict[object, Mask] = {}
        self._needs: dict[str, Need] = {}
        self._devices: Ints | None = None
        self._domains: dict[int, tuple[Ints, list[tuple[str, ...]]]] = {}
        self._large: dict[str, bool] = {}
        self._weights: dict[int, list[float]] = {}

    def need(self, shape: Shape) -> Need:
        found = self._needs.get(shape.key)
        if found is None:
            found = self._needs[shape.key] = Need(shape, self.columns)
        return found

    # one node

    def room(self, place: int) -> Room:
        room = self._rooms.get(place)
        if room is None:
            row: list[int] = self.free[place].tolist()
            devices = [device.offered for device in self.nodes[place].by_id]
            room = self._rooms[place] = Room(row, devices)
        return room

    def weights_of(self, place: int) -> list[float]:
        """One over the total of each of the four amounts that all nodes have; 0 where there is none."""
        found = self._weights.get(place)
        if found is None:
            weights: list[float] = self.weights[place].tolist()
            found = self._weights[place] = weights
        return found

    def usable(self, need: Need, place: int) -> tuple[int, ...]:
        return need.usable(self.nodes[place].kinds) if need.whole or need.share else ()

    def offer(self, place: int, seconds: float | None) -> Room:
        """What a task that takes ``seconds`` at most (None: nobody knows) may have of a node."""
        room = self.room(place)
        for gate in self.gates.get(place, ()):
            if gate.holds(seconds):
                room = room.meet(gate.room)
        return room

    def count(self, need: Need, place: int, seconds: float | None) -> int:
        return self.offer(place, seconds).count(need, self.usable(need, place))

    def take(self, need: Need, place: int, times: int, seconds: float | None) -> tuple[DeviceShares, ...]:
        """Book ``times`` tasks, which must fit in the offer. Answers with the devices of each, where they use GPUs."""
        rooms = [self.room(place), *(gate.room for gate in self.gates.get(place, ()) if gate.holds(seconds))]
        if self._depth:
            self._undo.append((place, self.busy[place], [(room, room.copy()) for room in rooms]))
        given: list[DeviceShares] = []
        if need.whole or need.share:
            usable, ids = self.usable(need, place), self.nodes[place].by_id
            for _ in range(times):
                shares = self.offer(place, seconds).choose(need, usable)
                for room in rooms:
                    room.move(shares, -1)
                given.append(tuple((ids[device].id, share) for device, share in shares))
        for room in rooms:
            room.take(need, times)
        self.busy[place] = max(self.busy[place], NEVER if seconds is None else seconds)
        self.touch(place)
        return tuple(given)

    def touch(self, place: int) -> None:
        """Say that a node's offer has changed."""
        self.last[place] = len(self.log)
        self.log.append(place)
        self._behind.add(place)

    # all or nothing

    def begin(self) -> int:
        """From here on what is booked can be undone. Answers with a mark; transactions may be nested."""
        self._depth += 1
        return len(self._undo)

    def commit(self) -> None:
        self._depth -= 1
        if not self._depth:
            self._undo.clear()

    def roll_back(self, mark: int) -> None:
        """Return to where ``begin`` gave the mark."""
        while len(self._undo) > mark:
            place, busy, rooms = self._undo.pop()
            self.busy[place] = busy
            for room, before in rooms:
                room.row, room.devices = before.row, before.devices
            self.touch(place)
        self.commit()

    # all nodes

    def able(self, shape: Shape) -> Mask:
        """The nodes that are open and satisfy the constraints of a shape, however full they are. A fresh array."""
        mask: Mask = self.open.copy()
        for _, part in self.constraints(shape):
            mask &= part
        return mask

    def constraints(self, shape: Shape) -> list[tuple[str, Mask]]:
        """What a node has to be, in words for one that is not, and which nodes are."""
        parts: list[tuple[str, Mask]] = []
        if shape.avoid:
            avoided = frozenset(shape.avoid)
            parts.append(("to be avoided", self._mask(("avoid", shape.avoid), lambda n: n.name not in avoided)))
        for label, values in shape.where:
            wanted = frozenset(values)
            text = f"{label} is not {' or '.join(values)}"
            test = _label_test(label, wanted)
            parts.append((text, self._mask(("where", label, values), test)))
        if shape.runtime is not None:
            runtime = shape.runtime
            parts.append((f"no runtime {runtime}", self._mask(("runtime", runtime), lambda n: runtime in n.runtimes)))
        if shape.resources.gpu and (shape.gpu.model is not None or shape.gpu.memory):
            gpu, devices = shape.gpu, max(1, -(-shape.resources.gpu // DEVICE))
            enough: dict[tuple[tuple[str, int], ...], bool] = {}

            def fitting(node: Node) -> bool:
                if node.kinds not in enough:
                    enough[node.kinds] = sum(matches(gpu, kind) for kind in node.kinds) >= devices
                return enough[node.kinds]

            parts.append(("its GPUs are not of the kind", self._mask(("gpu", gpu, devices), fitting)))
        return parts

    def fitting(self, need: Need) -> Mask:
        """The able nodes on which at least one such task has room now, gates aside."""
        self.sync()
        mask = self.able(need.shape)
        for column, amount in need.amounts:
            mask = mask & (self.free[:, column] >= amount)
        if need.whole:
            mask = mask & (self._whole(need).sum(axis=1) >= need.whole)
        elif need.share:
            mask = mask & ((self.devices >= need.share) & self.usable_devices(need)).any(axis=1)
        return mask

    def counts(self, need: Need) -> Ints:
        """How many such tasks fit on each node now, gates aside."""
        self.sync()
        most = np.where(self.able(need.shape), ENDLESS, 0)
        for column, amount in need.amounts:
            most = np.minimum(most, self.free[:, column] // amount)
        if need.whole:
            most = np.minimum(most, self._whole(need).sum(axis=1) // need.whole)
        elif need.share:
            most = np.minimum(most, ((self.devices // need.share) * self.usable_devices(need)).sum(axis=1))
        return np.maximum(most, 0)

    def large(self, need: Need) -> bool:
        """Whether any open and suitable node could hold one such task when it is empty."""
        found = self._large.get(need.shape.key)
        if found is None:
            found = self._large[need.shape.key] = bool(self.sizes(need).any())
        return found

    def sizes(self, need: Need) -> Ints:
        """How many such tasks each open and suitable node holds when it is empty."""
        most = np.where(self.able(need.shape), ENDLESS, 0)
        for column, amount in need.amounts:
            if column != PORTS:
                most = np.minimum(most, self.total[:, column] // amount)
        if need.whole or need.share:
            devices = self.usable_devices(need).sum(axis=1)
            most = np.minimum(most, devices // need.whole if need.whole else devices * (DEVICE // need.share))
        return most

    @property
    def devices(self) -> Ints:
        """Free thousandths of each device (nodes × most devices of a node)."""
        if self._devices is None:
            width = max((len(node.devices) for node in self.nodes), default=0)
            packed = b"".join([node.packed_devices.ljust(width * 8, b"\0") for node in self.nodes])
            self._devices = np.frombuffer(packed, np.int64).reshape(len(self.nodes), width).copy()
            self._behind.update(self._rooms)
            self.sync()
        return self._devices

    @cached_property
    def _ill(self) -> Mask:
        """Which devices are in quarantine (nodes × most devices of a node)."""
        ill: Mask = np.zeros(self.devices.shape, np.bool_)
        for place, node in enumerate(self.nodes):
            if node.quarantine:
                ill[place, : len(node.by_id)] = [bool(device.ill) for device in node.by_id]
        return ill

    def quarantined(self, need: Need) -> Ints:
        """How many devices of each node would do, but are in quarantine."""
        counts: Ints = (self._ill & self.usable_devices(need)).sum(axis=1)
        return counts

    def places_by_name(self) -> dict[str, int]:
        return {node.name: place for place, node in enumerate(self.nodes)}

    def domains(self, level: int) -> tuple[Ints, list[tuple[str, ...]]]:
        """The topology at one level: for each node the number of its domain, and the domains in the order of names.

        A node whose path is shorter belongs to what its path says."""
        found = self._domains.get(level)
        if found is None:
            keys = [(n.name,) if level == NODE_LEVEL else n.path[:level] for n in self.nodes]
            names = sorted(set(keys))
            numbers = {name: number for number, name in enumerate(names)}
            found = self._domains[level] = np.array([numbers[key] for key in keys], np.int64), names
        return found

    def sync(self) -> None:
        """Bring the arrays up to what was booked."""
        for place in self._behind:
            self.busy_all[place] = self.busy[place]
            room = self._rooms.get(place)
            if room is not None:
                self.free[place] = room.row
                if self._devices is not None and room.devices:
                    self._devices[place, : len(room.devices)] = room.devices
        self._behind.clear()

    def _busy(self, held: Iterable[Held], now: float) -> list[float]:
        latest: dict[str, float] = {}
        for each in held:
            ends = NEVER if each.ends is None else each.ends - now
            if ends > latest.get(each.node, 0.0):
                latest[each.node] = ends
        return [latest.get(node.name, 0.0) for node in self.nodes]

    def _whole(self, need: Need) -> Mask:
        whole: Mask = (self.devices >= DEVICE) & self.usable_devices(need)
        return whole

    def usable_devices(self, need: Need) -> Mask:
        """Which devices will do (nodes × most devices of a node)."""
        gpu = need.shape.gpu
        key = ("devices", gpu)
        found = self._masks.get(key)
        if found is None:
            width = self.devices.shape[1]
            rows: dict[tuple[tuple[str, int], ...], list[bool]] = {}
            for node in self.nodes:
                if node.kinds not in rows:
                    able = [matches(gpu, kind) for kind in node.kinds]
                    rows[node.kinds] = able + [False] * (width - len(able))
            found = np.array([rows[node.kinds] for node in self.nodes], np.bool_).reshape(len(self.nodes), width)
            self._masks[key] = found
        return found

    def _mask(self, key: object, test: Callable[[Node], bool]) -> Mask:
        found = self._masks.get(key)
        if found is None:
            found = self._masks[key] = np.fromiter(map(test, self.nodes), np.bool_, len(self.nodes))
        return found

    def _custom(self, names: Sequence[str], of: Callable[[Node], tuple[tuple[str, int], ...]]) -> Ints:
        rows = []
        for node in self.nodes:
            amounts = dict(of(node))
            rows.append([amounts.get(name, 0) for name in names])
        return np.array(rows, np.int64).reshape(len(self.nodes), len(names))


def _label_test(label: str, wanted: frozenset[str]) -> Callable[[Node], bool]:
    return lambda node: node.labels.get(label) in wanted
