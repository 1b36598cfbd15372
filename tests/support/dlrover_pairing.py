"""DLRover's own way of finding faulty and slow nodes, as its network-check rendezvous does it, to compare with.

From `intelligent-machine-learning/dlrover` @7c3e964: two rounds of pairs; the time of a node is that of its matrix
product and of its group's all-reduce together; a failure counts as 3600; a node is faulty if it failed in both rounds,
and a straggler if its best time is beyond 2 × the median. Used by the bench of checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from statistics import median

from grass.checks.faults import couple
from tests.support.check_faults import Injected

_FAILED = 3600.0


def accused(nodes: Sequence[str], fault: Injected) -> set[str] | None:
    """Return the nodes that it takes out; None: it gives up, and every node fails."""
    first = _measured(_adjacent(nodes), fault)
    if all(time < _FAILED for time in first.values()) and not _stragglers(first):
        return set()
    if len(nodes) <= 3:
        return None
    second = _measured(_by_speed(nodes, first), fault)
    best = {node: min(first[node], second[node]) for node in nodes}
    faulty = {node for node in nodes if best[node] >= _FAILED}
    return faulty | _stragglers(best)


def _adjacent(nodes: Sequence[str]) -> list[list[str]]:
    groups = [list(nodes[at : at + 2]) for at in range(0, len(nodes) - 1, 2)]
    if len(nodes) % 2:
        groups[-1].append(nodes[-1])
    return groups


def _by_speed(nodes: Sequence[str], times: dict[str, float]) -> list[list[str]]:
    order = sorted(nodes, key=lambda node: times[node])
    groups = []
    while len(order) > 1:
        groups.append([order.pop(0), order.pop()])
    if order:
        groups[-1].append(order.pop())
    return groups


def _measured(groups: Sequence[Sequence[str]], fault: Injected) -> dict[str, float]:
    times: dict[str, float] = {}
    for group in groups:
        broken = [each for each in combinations(group, 2) if couple(*each) in fault.broken]
        fails = any(fault.kind == "device" and node == fault.ill for node in group)
        fails = fails or bool(broken and "dropped" in fault.kind)
        together = 2.5 if broken else 1.0
        for node in group:
            alone = 2.0 if fault.kind == "matrix" and node == fault.ill else 1.0
            times[node] = _FAILED if fails else alone + together
    return times


def _stragglers(times: dict[str, float]) -> set[str]:
    sound = [time for time in times.values() if time < _FAILED]
    return {node for node, time in times.items() if sound and 2 * median(sound) < time < _FAILED}
