"""The number of tasks that may wait on a node behind equal tasks. Called by ``master.agent``.

A waiting task starts without asking the master. The task has no resources of its own: it takes the slot of an equal
task of its job that ended on the node, so nothing is allocated twice (ADR 2). Time bounds the depth, not number: a
long task never waits while a second node is idle, and a job of higher priority waits only for a moment.
"""

from __future__ import annotations

HORIZON = 0.1
"""Most seconds of work that may wait on a node."""
MOST = 200


def depth(width: int, mean_seconds: float | None) -> int:
    """Return how many tasks may wait behind ``width`` slots, if a task takes ``mean_seconds`` (None: unknown)."""
    if mean_seconds is None or mean_seconds >= HORIZON:
        return 0
    return min(MOST, int(width * HORIZON / max(mean_seconds, 1e-4)))
