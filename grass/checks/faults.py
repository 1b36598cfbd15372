"""Faults of a network that a check can tell apart, and which pairs of nodes each one breaks. Used by this package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

Couple = tuple[str, str]
"""Two nodes, in the order of their names."""


def couple(a: str, b: str) -> Couple:
    return (a, b) if a < b else (b, a)


class Fault(NamedTuple):
    """One fault. ``breaks``: the pairs of checked nodes that cannot be good with it. ``nodes``: those that cannot be
    used with it; none for a link, nor for a switch with several of the checked nodes."""

    name: str
    breaks: frozenset[Couple]
    nodes: frozenset[str]


def possible_faults(nodes: Sequence[str], paths: Mapping[str, Sequence[str]], bad: frozenset[Couple]) -> list[Fault]:
    """Return each fault that could be the only one. ``paths``: topology of nodes. ``bad``: links of these alone are
    considered; a link that was not measured has shown no fault.

    A switch may be broken as a whole, or only towards others."""
    couples = [couple(a, b) for at, a in enumerate(nodes) for b in nodes[at + 1 :]]
    faults = [
        Fault(f"nic({node})", frozenset(each for each in couples if node in each), frozenset((node,))) for node in nodes
    ]
    faults += [Fault(f"link({a}, {b})", frozenset(((a, b),)), frozenset()) for a, b in sorted(bad)]
    for switch, below in _switches(nodes, paths):
        only = frozenset(below) if len(below) == 1 else frozenset[str]()
        name = f"switch({switch})"
        whole = frozenset(each for each in couples if each[0] in below or each[1] in below)
        uplink = frozenset(each for each in couples if (each[0] in below) != (each[1] in below))
        faults += [Fault(name, breaks, only) for breaks in dict.fromkeys((whole, uplink)) if breaks]
    return faults


def _switches(nodes: Sequence[str], paths: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, set[str]]]:
    """Yield each switch of the topology, and the checked nodes below it."""
    below: dict[tuple[str, ...], set[str]] = {}
    for node in nodes:
        path = tuple(paths.get(node, ()))
        for depth in range(1, len(path) + 1):
            below.setdefault(path[:depth], set()).add(node)
    for path, members in sorted(below.items()):
        yield "/".join(path), members
