"""What a user's quota leaves. A job that waits for its quota keeps what it waits for from the user's later jobs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from master.planning.model import Demand, Shape, View
from master.planning.room import ENDLESS
from master.planning.shares import Shares


class Quotas:
    def __init__(self, view: View, shares: Shares) -> None:
        self._view = view
        self._shares = shares
        self._promised: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def of(self, user: str) -> Mapping[str, int]:
        return self._view.quotas.get(user, self._view.default_quota)

    def room(self, user: str, shape: Shape) -> int:
        """How many more tasks of a shape the user may run beside what runs and what was promised."""
        quota = self.of(user)
        most = ENDLESS
        if quota:
            held, promised = self._shares.held(user), self._promised[user]
            for name, need in wanted(quota, shape):
                most = min(most, max(0, (quota[name] - held[name] - promised[name]) // need))
        return most

    def allows(self, user: str, demands: Sequence[Demand]) -> bool:
        """Whether the user may run all of these now, beside what runs and what was promised."""
        held, promised, quota = self._shares.held(user), self._promised[user], self.of(user)
        needs = self._needs(user, demands)
        return all(held[name] + promised[name] + need <= quota[name] for name, need in needs.items())

    def could(self, user: str, demands: Sequence[Demand]) -> bool:
        """Whether all of these are within the quota when the user runs nothing else."""
        quota = self.of(user)
        return all(need <= quota[name] for name, need in self._needs(user, demands).items())

    def promise(self, user: str, demands: Sequence[Demand]) -> None:
        """Keep what these wait for, if the quota could ever give it."""
        if self.could(user, demands):
            self._promised[user].update(self._needs(user, demands))

    def promised(self, user: str) -> Counter[str]:
        return Counter(self._promised[user])

    def restore(self, user: str, promised: Counter[str]) -> None:
        """To what ``promised`` said before."""
        self._promised[user] = promised

    def _needs(self, user: str, demands: Sequence[Demand]) -> Counter[str]:
        needs: Counter[str] = Counter()
        for demand in demands:
            for name, need in wanted(self.of(user), demand.shape):
                needs[name] += need * demand.count
        return needs


def wanted(quota: Mapping[str, int], shape: Shape) -> list[tuple[str, int]]:
    """What a shape needs of what the quota limits."""
    amounts = shape.resources.amounts()
    return [(name, amounts[name]) for name in sorted(quota) if amounts.get(name, 0) > 0]
