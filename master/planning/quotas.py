"""The amounts that users' quotas still allow.

A job that waits for quota reserves its needs, so that the user's later jobs cannot use them. Used by ``explain`` and
``round``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from grass.model.policy import exceeded
from master.planning.fair_shares import FairShares
from master.planning.free_resources import UNLIMITED
from master.planning.model import Demand, Shape, Snapshot

_NOTHING: Mapping[str, int] = {}


class Quotas:
    """What is left of the quotas of all users while a plan is made."""

    def __init__(self, snapshot: Snapshot, shares: FairShares) -> None:
        self._snapshot = snapshot
        self._shares = shares
        self._reserved: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def quota_of(self, user: str) -> Mapping[str, int]:
        return self._snapshot.quotas.get(user, self._snapshot.default_quota)

    def too_many_files(self, user: str) -> str:
        """Return which limit on the share the user exceeds; empty: none."""
        return exceeded(self.quota_of(user), self.kept(user))

    def kept(self, user: str) -> Mapping[str, int]:
        return self._snapshot.kept_files.get(user, _NOTHING)

    def remaining(self, user: str, shape: Shape) -> int:
        """Return how many more tasks of a shape the user may run besides running tasks and reservations."""
        quota = self.quota_of(user)
        most = UNLIMITED
        if quota:
            allocated, reserved = self._shares.allocated(user), self._reserved[user]
            for name, need in limited_amounts(quota, shape):
                most = min(most, max(0, (quota[name] - allocated[name] - reserved[name]) // need))
        return most

    def allows(self, user: str, demands: Sequence[Demand]) -> bool:
        """Return whether the user may run all demands now, besides running tasks and reservations."""
        allocated, reserved, quota = self._shares.allocated(user), self._reserved[user], self.quota_of(user)
        needs = self._needs(user, demands)
        return all(allocated[name] + reserved[name] + need <= quota[name] for name, need in needs.items())

    def could(self, user: str, demands: Sequence[Demand]) -> bool:
        """Return whether all demands are within the quota when the user runs nothing else."""
        quota = self.quota_of(user)
        return all(need <= quota[name] for name, need in self._needs(user, demands).items())

    def reserve(self, user: str, demands: Sequence[Demand]) -> None:
        """Reserve the needs of the demands, if the quota can ever allow them."""
        if self.could(user, demands):
            self._reserved[user].update(self._needs(user, demands))

    def reserved(self, user: str) -> Counter[str]:
        return Counter(self._reserved[user])

    def restore(self, user: str, reserved: Counter[str]) -> None:
        """Restore the state that ``reserved`` returned before."""
        self._reserved[user] = reserved

    def _needs(self, user: str, demands: Sequence[Demand]) -> Counter[str]:
        needs: Counter[str] = Counter()
        for demand in demands:
            for name, need in limited_amounts(self.quota_of(user), demand.shape):
                needs[name] += need * demand.count
        return needs


def limited_amounts(quota: Mapping[str, int], shape: Shape) -> list[tuple[str, int]]:
    """Return (name, amount) of the needs of a shape for the resources that a quota limits; none for a check."""
    if shape.checks:
        return []
    amounts = shape.resources.amounts()
    return [(name, amounts[name]) for name in sorted(quota) if amounts.get(name, 0) > 0]
