"""Find the faults that explain which pairs of nodes are bad. Used by ``judge``.

The smallest sets of faults that explain all measurements are looked for. A fault that is in each of them is certain;
where they differ, more nodes are needed to tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from grass.checks.faults import Couple, Fault, possible_faults

_MOST_FAULTS = 3
_MOST_SETS = 20_000
"""Sets of faults to try of one size. Beyond it, nothing is said for certain."""


class Explanation(NamedTuple):
    """What explains the bad pairs."""

    certain: tuple[Fault, ...]
    sets: tuple[tuple[Fault, ...], ...]
    """The smallest sets of faults. Empty: there is nothing to explain, or no small set explains it."""
    explained: bool

    def involved(self) -> frozenset[str]:
        """Return the nodes that cannot be used, whichever of the sets is true."""
        each = [frozenset(node for fault in faults for node in fault.nodes) for faults in self.sets]
        return frozenset.intersection(*each) if each else frozenset()


def explain(
    nodes: Sequence[str], paths: Mapping[str, Sequence[str]], good: frozenset[Couple], bad: frozenset[Couple]
) -> Explanation:
    """Explain the pairs that were measured."""
    if not bad:
        return Explanation((), (), True)
    faults = [each for each in possible_faults(nodes, paths, bad) if not each.breaks & good and each.breaks & bad]
    for size in range(1, _MOST_FAULTS + 1):
        if _number(len(faults), size) > _MOST_SETS:
            break
        found = [
            each
            for each in combinations(faults, size)
            if bad <= frozenset[Couple]().union(*(one.breaks for one in each))
        ]
        if found:
            names = [{fault.name for fault in each} for each in found]
            common = set.intersection(*names)
            certain = {fault.name: fault for each in found for fault in each if fault.name in common}
            return Explanation(tuple(certain.values()), tuple(found), True)
    return Explanation((), (), False)


def _number(faults: int, size: int) -> int:
    number = 1
    for at in range(size):
        number = number * (faults - at) // (at + 1)
    return number
