"""Choose which nodes measure together next. Used by the client's run of a check.

First neighbours; then those that may be at fault only with partners that were good with another node, so that nobody is
accused because of a bad partner. Up to ``ALL_PAIRS`` nodes, each pair is measured: only that finds a bad link.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations

from grass.checks.faults import Couple, couple
from grass.checks.slowness import common_levels, slow_pairs
from grass.wire.checks import Pair

ALL_PAIRS = 9
_PARTNERS = 2
"""Partners of a node among many: a neighbour, and one that is far away."""
_PARTNERS_OF_SUSPECT = 3


def next_pairs(
    nodes: Sequence[str], paths: Mapping[str, Sequence[str]], pairs: Sequence[Pair], disturbed: Collection[str] = ()
) -> list[Couple]:
    """Return pairs that can be measured at the same time; none: enough was measured. ``nodes``: those that are good
    alone. ``pairs``: what was measured so far."""
    measured = {couple(pair.a, pair.b) for pair in pairs}
    bad = {couple(pair.a, pair.b) for pair in pairs if pair.error} | set(slow_pairs(pairs, paths, disturbed))
    proven = {node for each in measured - bad for node in each}
    suspects = {node for each in bad for node in each}
    order = {node: at for at, node in enumerate(sorted(nodes, key=lambda node: (tuple(paths.get(node, ())), node)))}
    partners = {node: sum(node in each for each in measured) for node in nodes}

    def wanted(pair: Couple) -> bool:
        if pair in measured:
            return False
        if len(nodes) <= ALL_PAIRS:
            return True
        return any(partners[node] < (_PARTNERS_OF_SUSPECT if node in suspects else _PARTNERS) for node in pair)

    def fair(pair: Couple, judges: Collection[str]) -> bool:
        return all(other in judges for one, other in (pair, pair[::-1]) if one in suspects)

    def rank(pair: Couple) -> tuple[int, int, int, int]:
        a, b = pair
        least = min(partners[a], partners[b])
        near = common_levels(a, b, paths)
        far = -near if least == 0 else near  # neighbours first, then across switches
        return (least, far, abs(order[a] - order[b]), order[a] + order[b])

    left = sorted(filter(wanted, (couple(*each) for each in combinations(order, 2))), key=rank)
    for judges in (proven, order.keys() - suspects, order):  # the latter two: where no node is proven good
        if chosen := _disjoint(pair for pair in left if fair(pair, judges)):
            return chosen
    return []


def _disjoint(pairs: Iterable[Couple]) -> list[Couple]:
    """Return the first pairs that share no node with each other."""
    chosen: list[Couple] = []
    busy: set[str] = set()
    for pair in pairs:
        if busy.isdisjoint(pair):
            chosen.append(pair)
            busy.update(pair)
    return chosen
