"""The tasks of the job that run DLRover's client, as Grass's memberships have them. Pure; used by all modules here.

DLRover knows a node by its rank, which is the index of the task, and by its id, which no other attempt gets again.
"""

from __future__ import annotations

from typing import Mapping, NamedTuple, Tuple

WORKER, PS = "worker", "ps"
ATTEMPTS = 1_000_000
"""Ids of the attempts of a task differ by so many."""


def node_id(index: int, attempt: int) -> int:
    return index + ATTEMPTS * (attempt - 1)


def attempt_of(node: int) -> int:
    return node // ATTEMPTS + 1


class Member(NamedTuple):
    index: int
    attempt: int
    address: str = ""

    @property
    def id(self) -> int:
        return node_id(self.index, self.attempt)


class Group(NamedTuple):
    """The members of one kind of nodes, in order of rank. ``least``: without so many, the job cannot run."""

    members: Tuple[Member, ...] = ()
    desired: int = 0
    least: int = 1

    @property
    def attempts(self) -> Mapping[int, int]:
        return {each.index: each.attempt for each in self.members}


Groups = Mapping[str, Group]
"""Kind of node (``worker``, ``ps``, …) → its members."""


def read_groups(document: Mapping) -> Groups:
    """Return the groups of the file that the renderer writes (``grass.frameworks.dlrover``)."""
    return {
        kind: Group(tuple(Member(*each) for each in group["members"]), group["desired"], group["min"])
        for kind, group in document.items()
    }
