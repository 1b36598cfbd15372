"""Recent usage of each user for fair share: seconds × dominant share, decayed with a half-life. Pure.

Sampled every ``INTERVAL`` seconds by a timer of the reactor, so a shorter task counts only if a sample sees it. Used by
``reactor`` and ``recover``.
"""

from __future__ import annotations

from master.agent.planner_snapshot import refresh
from master.agent.state import Cluster
from master.agent.step import Step
from master.planning.fair_shares import FairShares
from master.planning.model import Snapshot

INTERVAL = 5.0
"""Seconds between samples."""
FORGOTTEN = 1e-3
"""Usage below which a user without tasks is dropped."""


def tick(step: Step) -> None:
    """Decay the usage of all users, and add what they use now for the time since the last tick."""
    cluster = step.cluster
    refresh(step)
    elapsed = max(0.0, step.now - cluster.usage_at)
    decay = 0.5 ** (elapsed / step.limits.usage_half_life)
    shares = _dominant_shares(cluster)
    for user in {*cluster.usage, *shares}:
        cluster.usage[user] = cluster.usage.get(user, 0.0) * decay + shares.get(user, 0.0) * elapsed
    cluster.usage_at = step.now
    gone = [user for user, value in cluster.usage.items() if value < FORGOTTEN and user not in shares]
    for user in gone:
        del cluster.usage[user]
    step.changes.usage.update(dict.fromkeys([*shares, *gone]))


def _dominant_shares(cluster: Cluster) -> dict[str, float]:
    """Return the dominant share of each user that has allocations."""
    allocations = [one for group in cluster.cache.allocations.values() for one, _, _ in group]
    shares = FairShares(Snapshot(list(cluster.cache.nodes.values()), (), allocations))
    return {user: shares.dominant(user) for user in {each.user for each in allocations}}
