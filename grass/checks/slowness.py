"""Find what is slow: beyond 1.5 × the median of its like, in both rounds. Used by ``judge``.

DLRover uses 2 × the median of a sum of times, which hides a node that is 40 % slower, and a slow network behind a fast
processor.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import median_low

from grass.checks.faults import Couple, couple
from grass.wire.checks import Alone, Pair

SLOW = 1.5
"""Times the median."""
OTHERS = "cores used by other programs %"
"""Figure of level 1, as ``grass/task/node_check.py`` names it."""
MOST_OTHERS = 25.0


def disturbed(alone: Iterable[Alone]) -> frozenset[str]:
    """Return the nodes on which other programs worked meanwhile: that they are slow accuses nothing."""
    return frozenset(one.node for one in alone if one.figures.get(OTHERS, 0.0) > MOST_OTHERS)


def slow_alone(alone: Sequence[Alone]) -> dict[str, list[tuple[str, float]]]:
    """Return node → (measurement, how many times the median), for measurements that are slow in each round.

    Devices of one model are alike, also those of one node. With two of them, the faster one is what is normal."""
    groups: dict[tuple[str, str], list[tuple[str, str, tuple[float, ...]]]] = {}
    for one in alone:
        for name, times in one.times.items():
            groups.setdefault((one.model, name.partition(" ")[0]), []).append((one.node, name, times))
    found: dict[str, list[tuple[str, float]]] = {}
    for rows in groups.values():
        for (node, name, _), factor in zip(rows, _factors([times for _, _, times in rows]), strict=True):
            if factor > SLOW:
                found.setdefault(node, []).append((name, factor))
    return found


def _factors(rows: Sequence[tuple[float, ...]]) -> list[float]:
    """Return for each row by how much it is beyond the median, in its better round."""
    rounds = min((len(row) for row in rows), default=0)
    if not rounds:
        return [0.0] * len(rows)
    normal = [median_low([row[at] for row in rows]) for at in range(rounds)]
    return [min(row[at] / normal[at] if normal[at] > 0 else 0.0 for at in range(rounds)) for row in rows]


def slow_pairs(
    pairs: Iterable[Pair], paths: Mapping[str, Sequence[str]], disturbed: Collection[str]
) -> dict[Couple, float]:
    """Return the pairs that are slow in each round, and how many times the median. None is of a ``disturbed`` node.

    Pairs across a switch are compared with each other, and pairs below one switch with each other. The median is that
    of the nodes' best times: with three nodes, one bad network card slows two of the three pairs."""
    groups: dict[int, list[Pair]] = {}
    for pair in pairs:
        if not pair.error and pair.times and not {pair.a, pair.b} & {*disturbed}:
            groups.setdefault(common_levels(pair.a, pair.b, paths), []).append(pair)
    found: dict[Couple, float] = {}
    for group in groups.values():
        normal = _normal(group)
        for pair in group:
            factor = min(
                (time / each if each > 0 else 0.0 for time, each in zip(pair.times, normal, strict=False)), default=0.0
            )
            if factor > SLOW:
                found[couple(pair.a, pair.b)] = factor
    return found


def _normal(pairs: Sequence[Pair]) -> list[float]:
    """Return the median of the nodes' best times in each round; nothing for fewer than three nodes."""
    rounds = min(len(pair.times) for pair in pairs)
    nodes = sorted({node for pair in pairs for node in (pair.a, pair.b)})
    if len(nodes) < 3:
        return []
    return [
        median_low([min(pair.times[at] for pair in pairs if node in (pair.a, pair.b)) for node in nodes])
        for at in range(rounds)
    ]


def common_levels(a: str, b: str, paths: Mapping[str, Sequence[str]]) -> int:
    """Return how many levels of the topology two nodes share."""
    shared = 0
    for one, other in zip(paths.get(a, ()), paths.get(b, ()), strict=False):
        if one != other:
            break
        shared += 1
    return shared
