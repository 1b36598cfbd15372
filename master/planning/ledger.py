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
from master.planning.model import Allocation, DeviceShares, Node, Shape
from master.planning.need import COLUMNS, PORTS, Need, matches
from master.planning.room import ENDLESS, Room

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
GRAIN = 1e9
"""Shares of nodes are counted in thousand-millionths, so that they can be compared as whole numbers."""
NEVER = 1e12
"""Seconds until the end of what has no known end."""


class Ledger:
    """``custom``: the custom resources that anybody in the queue asks for. ``columns``: name of an amount → its column.
    ``log``: the nodes that changed, in order; ``last``: where in it a node stands last (-1: nowhere). ``gates``: node →
    what has been promised there to somebody who cannot start yet.
    ``busy``: for how many seconds each node is not empty at most (0: it is now).
    """

    def __init__(
        self, nodes: Iterable[Node], custom: Sequence[str], held: Iterable[Allocation] = (), now: float = 0.0
    ) -> None:
        self.nodes = sorted(nodes, key=lambda node: node.name)
        self.columns = {name: column for column, name in enumerate((*COLUMNS, *custom))}
        self._custom = custom
        self.gates: dict[int, list[Gate]] = {}
        self.log: list[int] = []
        self.last = [-1] * len(self.nodes)
        self.busy = self._busy(held, now)
        self._rooms: dict[int, Room] = {}
        self._behind: set[int] = set()
        self._undo: list[tuple[int, float, list[tuple[Room, Room]]]] = []
        self._depth = 0
        self._masks: dict[object, Mask] = {}
        self._needs: dict[str, Need] = {}
        self._devices: Ints | None = None
        self._domains: dict[int, tuple[Ints, list[tuple[str, ...]]]] = {}
        self._large: dict[str, bool] = {}
        self._weights: dict[int, tuple[float, ...]] = {}

    def need(self, shape: Shape) -> Need:
        found = self._needs.get(shape.key)
        if found is None:
            found = self._needs[shape.key] = Need(shape, self.columns)
        return found

    # one node

    def room(self, place: int) -> Room:
        room = self._rooms.get(place)
        if room is None:
            node = self.nodes[place]
            free = node.free
            row = [free.cpu, free.memory, free.gpu, free.disk, node.ports]
            if self._custom:
                amounts = dict(free.custom)
                row += [amounts.get(name, 0) for name in self._custom]
            room = self._rooms[place] = Room(row, [device.offered for device in node.by_id])
        return room

    def weights_of(self, place: int) -> tuple[float, ...]:
        """``GRAIN`` over the total of each of the four amounts that all nodes have; 0 where there is none."""
        found = self._weights.get(place)
        if found is None:
            total = self.nodes[place].total
            sizes = (total.cpu, total.memory, total.gpu, total.disk)
            found = self._weights[place] = tuple([GRAIN / size if size > 0 else 0.0 for size in sizes])
        return found

    def suits(self, shape: Shape, place: int) -> bool:
        """Whether a node is open and satisfies the constraints of a shape, however full it is."""
        node = self.nodes[place]
        return not node.closed and all(test(node) for _, _, test in self._tests(shape))

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

    # all nodes: arrays, made when they are first asked for, because on a few nodes nobody does

    @cached_property
    def _packed(self) -> Ints:
        packed: Ints = np.frombuffer(b"".join([node.packed for node in self.nodes]), np.int64)
        return packed.reshape(len(self.nodes), 11)

    @cached_property
    def free(self) -> Ints:
        """Nodes × columns; as it was at the last ``sync``."""
        free = self._packed[:, :5]
        return np.array(np.hstack((free, self._customs(lambda node: node.free.custom))), order="F")

    @cached_property
    def total(self) -> Ints:
        """Nodes × columns."""
        total = self._packed[:, 5:10]
        return np.array(np.hstack((total, self._customs(lambda node: node.total.custom))), order="F")

    @cached_property
    def open(self) -> Mask:
        mask: Mask = self._packed[:, 10] == 1
        return mask

    @cached_property
    def weights(self) -> Floats:
        """As ``weights_of``, for all nodes."""
        sizes = self.total[:, :4]
        return np.divide(GRAIN, sizes, out=np.zeros(sizes.shape, order="F"), where=sizes > 0)

    @cached_property
    def busy_all(self) -> Floats:
        """``busy`` as it was at the last ``sync``."""
        return np.array(self.busy, np.float64)

    def able(self, shape: Shape) -> Mask:
        """The nodes that are open and satisfy the constraints of a shape, however full they are. A fresh array."""
        mask: Mask = self.open.copy()
        for _, part in self.constraints(shape):
            mask &= part
        return mask

    def constraints(self, shape: Shape) -> list[tuple[str, Mask]]:
        """What a node has to be, in words for one that is not, and which nodes are."""
        return [(text, self._mask(key, test)) for text, key, test in self._tests(shape)]

    def _tests(self, shape: Shape) -> list[tuple[str, object, Callable[[Node], bool]]]:
        """The text of each constraint, a key that is equal for equal ones, and whether a node satisfies it."""
        parts: list[tuple[str, object, Callable[[Node], bool]]] = []
        if shape.avoid:
            avoided = frozenset(shape.avoid)
            parts.append(("to be avoided", ("avoid", shape.avoid), lambda n: n.name not in avoided))
        for label, values in shape.where:
            test = _label_test(label, frozenset(values))
            parts.append((f"{label} is not {' or '.join(values)}", ("where", label, values), test))
        if shape.runtime is not None:
            runtime = shape.runtime
            parts.append((f"no runtime {runtime}", ("runtime", runtime), lambda n: runtime in n.runtimes))
        if shape.resources.gpu and (shape.gpu.model is not None or shape.gpu.memory):
            gpu, devices = shape.gpu, max(1, -(-shape.resources.gpu // DEVICE))
            enough: dict[tuple[tuple[str, int], ...], bool] = {}

            def fitting(node: Node) -> bool:
                if node.kinds not in enough:
                    enough[node.kinds] = sum(matches(gpu, kind) for kind in node.kinds) >= devices
                return enough[node.kinds]

            parts.append(("its GPUs are not of the kind", ("gpu", gpu, devices), fitting))
        return parts

    def fitting(self, need: Need, able: Mask) -> Mask:
        """The able nodes on which at least one such task has room now, gates aside."""
        self.sync()
        mask = able
        for column, amount in need.amounts:
            mask = mask & (self.free[:, column] >= amount)
        if need.whole or need.share:
            places, mask = np.flatnonzero(mask), mask.copy()
            usable = (self.devices[places] >= (need.share or DEVICE)) & self.usable_devices(need)[places]
            mask[places] = usable.sum(axis=1) >= max(1, need.whole)
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

    def missing(self, need: Need) -> Floats:
        """How much must come free on each node for one task, as a sum of shares of what it needs."""
        self.sync()
        missing: Floats = np.zeros(len(self.nodes))
        for column, amount in need.amounts:
            missing += np.maximum(amount - self.free[:, column], 0) / amount
        if need.whole:
            missing += np.maximum(need.whole - self._whole(need).sum(axis=1), 0) / need.whole
        return missing

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
        free, busy = self.free, self.busy_all
        for place in self._behind:
            busy[place] = self.busy[place]
            room = self._rooms.get(place)
            if room is not None:
                free[place] = room.row
                if self._devices is not None and room.devices:
                    self._devices[place, : len(room.devices)] = room.devices
        self._behind.clear()

    def _busy(self, held: Iterable[Allocation], now: float) -> list[float]:
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

    def _customs(self, of: Callable[[Node], tuple[tuple[str, int], ...]]) -> Ints:
        rows = []
        for node in self.nodes if self._custom else ():
            amounts = dict(of(node))
            rows.append([amounts.get(name, 0) for name in self._custom])
        return np.array(rows, np.int64).reshape(len(self.nodes), len(self._custom))


def _label_test(label: str, wanted: frozenset[str]) -> Callable[[Node], bool]:
    return lambda node: node.labels.get(label) in wanted
