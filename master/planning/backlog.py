"""How many tasks may wait on a node behind equal tasks, to start without asking the master. Called by ``master.agent``.

A waiting task has no resources of its own: it takes the slot of an equal task of its job that ended there, so
nothing is allocated twice (ADR 2). The depth is bounded by time, not by number: a long task never waits behind
another while a second node is idle, and a job of higher priority waits only for a moment.
"""

from __future__ import annotations

HORIZON = 0.1
"""Seconds of work that may wait on a node."""
MOST = 200


def depth(width: int, mean_seconds: float | None) -> int:
    """Tasks that may wait behind ``width`` slots when a task takes ``mean_seconds`` (None: unknown)."""
    if mean_seconds is None or mean_seconds >= HORIZON:
        return 0
    return min(MOST, int(width * HORIZON / max(mean_seconds, 1e-4)))
