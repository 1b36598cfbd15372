"""What each user has had of the cluster lately: the share of the dominant resource, in seconds, halved every half-life.

Looked at every few seconds, so tasks that are shorter count as often as they are seen. Pure.
"""

from __future__ import annotations

from grass.model.resources import Resources
from master.agent.state import Cluster
from master.agent.step import Step
from master.agent.viewing import refresh

INTERVAL = 5.0
FORGOTTEN = 1e-3


def tick(step: Step) -> None:
    """Count what is held now for the time since the last tick."""
    cluster = step.cluster
    refresh(step)
    elapsed = max(0.0, step.now - cluster.usage_at)
    decay = 0.5 ** (elapsed / step.limits.usage_half_life)
    shares = dominant_shares(cluster)
    for user in {*cluster.usage, *shares}:
        cluster.usage[user] = cluster.usage.get(user, 0.0) * decay + shares.get(user, 0.0) * elapsed
    cluster.usage_at = step.now
    gone = [user for user, value in cluster.usage.items() if value < FORGOTTEN and user not in shares]
    for user in gone:
        del cluster.usage[user]
    step.changes.usage.update(dict.fromkeys([*shares, *gone]))


def dominant_shares(cluster: Cluster) -> dict[str, float]:
    """User → the largest of the shares of cpu, memory, gpu… of all nodes that the user's tasks hold."""
    total, held = Resources(), dict[str, Resources]()
    for node in cluster.cache.nodes.values():
        total += node.total
    for group in cluster.cache.held.values():
        for one, _ in group:
            held[one.user] = held.get(one.user, Resources()) + one.shape.resources * one.count
    sizes = {name: size for name, size in total.amounts().items() if size > 0}
    return {
        user: max((amounts.amount(name) / size for name, size in sizes.items()), default=0.0)
        for user, amounts in held.items()
    }
