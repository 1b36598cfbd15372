"""What a user's quota leaves. A job that waits for quota keeps what it waits for from the user's later jobs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from master.planning.free_resources import UNLIMITED
from master.planning.model import Demand, Shape, View
from master.planning.shares import Shares


class Quotas:
    def __init__(self, view: View, shares: Shares) -> None:
        self._view = view
        self._shares = shares
        self._reserved: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def of(self, user: str) -> Mapping[str, int]:
        return self._view.quotas.get(user, self._view.default_quota)

    def remaining(self, user: str, shape: Shape) -> int:
        """How many more tasks of a shape the user may run besides running tasks and reservations."""
        quota = self.of(user)
        most = UNLIMITED
        if quota:
            allocated, reserved = self._shares.allocated(user), self._reserved[user]
            for name, need in limited_amounts(quota, shape):
                most = min(most, max(0, (quota[name] - allocated[name] - reserved[name]) // need))
        return most

    def allows(self, user: str, demands: Sequence[Demand]) -> bool:
        """Whether the user may run all of these now, besides running tasks and reservations."""
        allocated, reserved, quota = self._shares.allocated(user), self._reserved[user], self.of(user)
        needs = self._needs(user, demands)
        return all(allocated[name] + reserved[name] + need <= quota[name] for name, need in needs.items())

    def could(self, user: str, demands: Sequence[Demand]) -> bool:
        """Whether all of these are within the quota when the user runs nothing else."""
        quota = self.of(user)
        return all(need <= quota[name] for name, need in self._needs(user, demands).items())

    def reserve(self, user: str, demands: Sequence[Demand]) -> None:
        """Reserve what these wait for, if the quota can ever allow it."""
        if self.could(user, demands):
            self._reserved[user].update(self._needs(user, demands))

    def reserved(self, user: str) -> Counter[str]:
        return Counter(self._reserved[user])

    def restore(self, user: str, reserved: Counter[str]) -> None:
        """Return to what ``reserved`` returned before."""
        self._reserved[user] = reserved

    def _needs(self, user: str, demands: Sequence[Demand]) -> Counter[str]:
        needs: Counter[str] = Counter()
        for demand in demands:
            for name, need in limited_amounts(self.of(user), demand.shape):
                needs[name] += need * demand.count
        return needs


def limited_amounts(quota: Mapping[str, int], shape: Shape) -> list[tuple[str, int]]:
    """(name, amount) of what a shape needs of the resources that a quota limits."""
    amounts = shape.resources.amounts()
    return [(name, amounts[name]) for name in sorted(quota) if amounts.get(name, 0) > 0]
