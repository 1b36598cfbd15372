"""DLRover's check of nodes in pairs, with its own rules: two rounds, and a node that failed in both is bad. Pure.

Round 0 pairs neighbours, round 1 the fastest with the slowest. A straggler took over twice the median time. Used by
``state``.
"""

from __future__ import annotations

from statistics import median

from grass_dlrover.members import Group
from grass_dlrover.rendezvous import Rendezvous

NOT_BEGUN, WAITING, FAILURE = "Not Initialized", "Waiting node", "Node Failure"
"""Reasons that DLRover's client knows."""
_STRAGGLER = 2.0


class NodeChecks(Rendezvous):
    """The rendezvous of a check. ``status``, ``times``: rank → whether it passed one of the rounds; its best time.
    ``named``: rank → attempt of the nodes at fault by the last check."""

    def __init__(self, kept=None):
        super().__init__(kept)
        kept = kept or {}
        self.groups = [list(each) for each in kept.get("groups", [])]
        self.status = dict(kept.get("status", []))
        self.times = dict(kept.get("times", []))
        self.reported = list(kept.get("reported", []))
        self.named = dict(kept.get("named", []))

    def kept(self):
        return {
            **super().kept(),
            "groups": self.groups,
            "status": list(self.status.items()),
            "times": list(self.times.items()),
            "reported": self.reported,
            "named": list(self.named.items()),
        }

    def decide(self, group: Group) -> bool:
        first = self.round % 2 == 0
        if not super().decide(group):
            return False
        if first:
            self.status, self.times = {}, {}
            order = list(self.world)
        else:
            order = _fast_with_slow(sorted(self.world, key=lambda rank: self.times.get(rank, 0.0)))
        self.groups = _pairs(order)
        self.reported = []
        return True

    def group_of(self, rank):
        """Return (number, world) of the agent's group: rank → processes. The world is empty while it waits."""
        world = self.world_of(rank)
        for number, ranks in enumerate(self.groups):
            if rank in ranks:
                return number, {each: world[each] for each in ranks if each in world}
        return 0, world

    def report(self, rank, passed, seconds):
        """Note the result of a node. The better one of its two rounds counts."""
        if rank not in self.reported:
            self.reported.append(rank)
        self.status[rank] = self.status.get(rank, False) or bool(passed)
        self.times[rank] = round(min(self.times.get(rank, seconds), seconds), 3)

    def failed(self, group: Group):
        """Return (ranks of the failed nodes, reason). Nodes that are gone are not waited for."""
        if not self.world:
            return [], NOT_BEGUN
        if self._missing(group):
            return [], WAITING
        failed = [rank for rank, passed in self.status.items() if not passed]
        if not failed and not self._slow():
            self.round += self.round % 2  # the next check begins with its round 0
        return failed, FAILURE if failed else ""

    def verdict(self, group: Group):
        """Return (rank, attempt) of each node that is newly at fault, and (rank, 0) of each that is no longer. Empty
        while a check goes on: after a failure, the second round decides."""
        failed = {
            rank: self.world[rank][0] for rank, passed in self.status.items() if not passed and rank in self.world
        }
        if not self.world or self._missing(group) or (failed and self.round % 2):
            return []
        before, self.named = self.named, failed
        good = [(rank, 0) for rank in before if rank not in failed]
        return good + [(rank, attempt) for rank, attempt in failed.items() if before.get(rank) != attempt]

    def stragglers(self, group: Group):
        return ([], WAITING) if self._missing(group) else (self._slow(), "")

    def _missing(self, group: Group):
        attempts = group.attempts
        there = [rank for rank, (attempt, _) in self.world.items() if attempts.get(rank) == attempt]
        return [rank for rank in there if rank not in self.reported]

    def _slow(self):
        limit = _STRAGGLER * median(self.times.values()) if self.times else 0.0
        return [rank for rank, seconds in self.times.items() if seconds > limit]


def _pairs(order):
    """Return groups of two; the last one of an odd number joins the last group."""
    pairs = [order[at : at + 2] for at in range(0, len(order), 2)]
    if len(pairs) > 1 and len(pairs[-1]) == 1:
        last = pairs.pop()
        pairs[-1] += last
    return pairs


def _fast_with_slow(order):
    mixed = []
    while order:
        mixed.append(order.pop(0))
        if order:
            mixed.append(order.pop())
    return mixed
