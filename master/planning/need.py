"""A shape in a form that is fast to compare with the free resources of nodes. Used by this package."""

from __future__ import annotations

from grass.model.namespace import POD_COST
from grass.model.resources import DEVICE, Resources
from master.planning.model import Shape

CPU, MEMORY, GPU, DISK, PORTS = range(5)
COLUMNS = ("cpu", "memory", "gpu", "disk", "ports")
"""The amounts that every node has, in the order of a row. Custom resources of queued tasks follow them."""


class Need:
    """The need of one task. ``amounts``: (column, amount); ``whole`` devices, or a ``fraction`` of one, in thousandths.
    ``in_pod``: the amounts in a namespace of Kubernetes, with the cost of a pod.

    A custom resource without a column is a resource that no queued task needs.
    """

    def __init__(self, shape: Shape, columns: dict[str, int]) -> None:
        self.shape = shape
        self.amounts = _amounts(shape.resources, shape.ports, columns)
        self.in_pod = _amounts(shape.resources + POD_COST, shape.ports, columns)
        gpu = shape.resources.gpu
        self.whole = -(-gpu // DEVICE) if gpu >= DEVICE else 0
        self.fraction = gpu if 0 < gpu < DEVICE else 0
        self._usable: dict[tuple[tuple[str, int], ...], tuple[int, ...]] = {}

    def usable(self, kinds: tuple[tuple[str, int], ...]) -> tuple[int, ...]:
        """Return indexes of a node's matching devices, the smallest first, to keep large devices free for others."""
        found = self._usable.get(kinds)
        if found is None:
            gpu = self.shape.gpu
            able = [index for index, kind in enumerate(kinds) if gpu.matches(*kind)]
            found = self._usable[kinds] = tuple(sorted(able, key=lambda index: kinds[index][1]))
        return found

    def on(self, pods: bool) -> list[tuple[int, int]]:
        """Return the amounts on a node. ``pods``: whether it is a namespace."""
        return self.in_pod if pods else self.amounts


def _amounts(resources: Resources, ports: int, columns: dict[str, int]) -> list[tuple[int, int]]:
    wanted = {**resources.amounts(), "ports": ports}
    return [(columns[name], amount) for name, amount in wanted.items() if amount > 0 and name in columns]
