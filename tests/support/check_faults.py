"""Faults of simulated nodes and networks, and what a check of them measures. Used by tests and benches of checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from grass.checks.faults import Couple, couple
from grass.checks.judge import good_alone, judge
from grass.checks.rounds import next_pairs
from grass.wire.checks import Alone, Measurements, Pair, Problem, Verdicts

KINDS = ("device", "matrix", "nic dropped", "nic slow", "link dropped", "link slow", "switch dropped")


@dataclass(frozen=True)
class Injected:
    """One fault. ``name``: as verdicts write it. ``broken``: pairs that fail or are slow. ``ill``: a node alone."""

    kind: str
    name: str
    broken: frozenset[Couple] = frozenset()
    ill: str = ""

    def alone(self, node: str) -> Alone:
        if self.kind == "device" and node == self.ill:
            return Alone(node, "m", (Problem("gpu", "gpu 0 does not answer", 0),), devices=(0, 1))
        slow = 2.0 if self.kind == "matrix" and node == self.ill else 1.0
        return Alone(node, "m", times={"matrix": (slow, slow * 1.1)})

    def pair(self, a: str, b: str) -> Pair:
        if couple(a, b) not in self.broken:
            return Pair(a, b, (1.0, 1.05))
        return Pair(a, b, (2.5, 2.6)) if "slow" in self.kind else Pair(a, b, error="timed out")


def names(number: int) -> list[str]:
    return [f"n{at}" for at in range(number)]


def two_switches(nodes: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the topology: the first half below one switch, the others below another."""
    half = len(nodes) // 2
    return {node: ("s1" if at < half else "s2",) for at, node in enumerate(nodes)}


def injected(nodes: Sequence[str], paths: Mapping[str, Sequence[str]]) -> list[Injected]:
    """Return each single fault of these nodes."""
    couples = [couple(*each) for each in combinations(nodes, 2)]
    found = []
    for node in nodes:
        own = frozenset(each for each in couples if node in each)
        found += [Injected("device", "gpu", ill=node), Injected("matrix", "host", ill=node)]
        found += [Injected(kind, f"nic({node})", own) for kind in ("nic dropped", "nic slow")]
    for a, b in couples:
        found += [Injected(kind, f"link({a}, {b})", frozenset(((a, b),))) for kind in ("link dropped", "link slow")]
    for switch in sorted({path[0] for path in paths.values()}):
        below = {node for node in nodes if paths[node][0] == switch}
        broken = frozenset(each for each in couples if below & {*each})
        found.append(Injected("switch dropped", f"switch({switch})", broken))
    return found


def checked(nodes: Sequence[str], paths: Mapping[str, Sequence[str]], fault: Injected | None) -> tuple[Verdicts, int]:
    """Run the ladder. Return its verdicts, and the number of rounds of level 2."""
    truth = fault or Injected("none", "")
    alone = tuple(truth.alone(node) for node in nodes)
    pairs: list[Pair] = []
    rounds = 0
    while chosen := next_pairs(good_alone(alone), paths, pairs):
        pairs += [truth.pair(a, b) for a, b in chosen]
        rounds += 1
    return judge(Measurements(alone, tuple(pairs)), paths), rounds
