"""Each user's part of the cluster: for fair share and for quotas.

Used by ``Round`` and ``master.agent.fairness``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from math import fsum

from grass.model.resources import Resources
from master.planning.model import Snapshot


class FairShares:
    """The allocations of each user, including this plan's placements.

    Fair share compares the sum of two fractions: the user's part of all past use (``Snapshot.usage``; its unit does not
    matter), and the user's dominant share now: the largest fraction of any one resource of the whole cluster.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._past = fsum(snapshot.usage.values())  # exact, so that the order of the mapping does not matter
        self._whole: Counter[str] | None = None
        self._allocated: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._counted = False
        self._placed: list[tuple[str, Resources, int]] = []

    def fair_share(self, user: str) -> float:
        """Return what fair share compares: the sum of both fractions."""
        return (self._snapshot.usage.get(user, 0.0) / self._past if self._past > 0 else 0.0) + self.dominant(user)

    def dominant(self, user: str) -> float:
        """Return the user's dominant share now."""
        allocated, whole = self.allocated(user), self._totals()
        return max((amount / whole[name] for name, amount in allocated.items() if whole[name] > 0), default=0.0)

    def add(self, user: str, resources: Resources, count: int) -> None:
        if self._counted:
            self._add(user, resources, count)
        else:
            self._placed.append((user, resources, count))

    def allocated(self, user: str) -> Counter[str]:
        """Return amounts by name. Counted on first use: a queue of one user without a quota never needs them."""
        if not self._counted:
            self._counted = True
            for each in self._snapshot.allocations:
                allocated = self._allocated[each.user]
                for name, amount in each.shape.amounts:
                    allocated[name] += amount * each.count
            for placed in self._placed:
                self._add(*placed)
        return self._allocated[user]

    def _add(self, user: str, resources: Resources, count: int) -> None:
        amounts = self._allocated[user]
        amounts["cpu"] += resources.cpu * count
        amounts["memory"] += resources.memory * count
        if resources.gpu:
            amounts["gpu"] += resources.gpu * count
        if resources.disk:
            amounts["disk"] += resources.disk * count
        for name, amount in resources.custom:
            amounts[name] += amount * count

    def _totals(self) -> Mapping[str, int]:
        if self._whole is None:
            totals = [node.total for node in self._snapshot.nodes]
            whole: Counter[str] = Counter()
            whole["cpu"], whole["memory"] = sum([t.cpu for t in totals]), sum([t.memory for t in totals])
            whole["gpu"], whole["disk"] = sum([t.gpu for t in totals]), sum([t.disk for t in totals])
            for total in totals:
                for name, amount in total.custom:
                    whole[name] += amount
            self._whole = whole
        return self._whole
