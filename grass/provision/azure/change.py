"""Decides which nodes on Azure are made and removed, for as many of each size as wanted. Pure. Used by this package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from grass.model.lifecycle import NodeState
from grass.provision.azure.record import Asked


@dataclass(frozen=True)
class Member:
    """A node as the cluster knows it."""

    state: NodeState
    tasks: int = 0
    gpus: int | None = None
    """Those that it sees; None: not known."""


@dataclass(frozen=True)
class Change:
    """What a cluster lacks and has too much. By name. ``keep``: of the sizes that were named, new ones as well."""

    keep: Mapping[str, Asked]
    new: frozenset[str]
    remove: tuple[str, ...]


def decide(
    cluster: str,
    nodes: Mapping[str, Asked],
    members: Mapping[str, Member],
    wanted: Mapping[str, int],
    new_one: Asked,
) -> Change:
    """Return what to do for as many nodes of each size as wanted. Those that do least are removed first.

    ``new_one``: what new nodes are like, but for their size. Spot nodes and others count apart.
    """
    keep: dict[str, Asked] = {}
    new, remove = [], []

    def use(name: str) -> tuple[bool, int, int]:
        member = members.get(name)
        return member is not None, member.tasks if member else 0, _number(name)

    for size, count in wanted.items():
        alike = [name for name, each in nodes.items() if (each.size, each.counts_as_spot) == (size, new_one.spot)]
        there = sorted(alike, key=use)
        surplus = max(0, len(there) - count)
        # of those that are alike, the last one made
        idle = sorted(there, key=lambda name: (*use(name)[:2], -_number(name)))
        remove += idle[:surplus]
        keep |= {name: nodes[name] for name in there if name not in idle[:surplus]}
        stem = f"{cluster}-{size.removeprefix('Standard_').lower().replace('_', '-')}{'-spot' if new_one.spot else ''}"
        free = (name for number in range(1, 10_000) if (name := f"{stem}-{number}") not in nodes)
        for _ in range(count - len(there)):
            name = next(free)
            new.append(name)
            keep[name] = replace(new_one, size=size)
    return Change(keep, frozenset(new), tuple(remove))


def _number(name: str) -> int:
    return int(name.rpartition("-")[2])
