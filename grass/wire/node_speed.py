"""How fast a node was measured to be. In the record of a node, and in replies of the API.

Used by ``grass.checks.speed``, ``node_record`` and ``node_views``.
"""

from __future__ import annotations

import msgspec


class NodeSpeed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How fast a node is beside nodes like it. A speed of 1.0 is their median; 0.5 takes twice the time."""

    value: float = 1.0
    """What the planner uses: the lower of the two speeds below, which fade to 1.0 with time."""
    check: float | None = None
    """By the newest check at level 1 or 2: the slowest of its measurements. None: it was not checked."""
    check_at: float = 0.0
    """Seconds since the epoch, as ``steps_at``."""
    model: str = ""
    """What was measured then: only times of equal models are compared."""
    times: dict[str, float] = {}
    """Name of a measurement → seconds then, of the slowest device."""
    steps: float | None = None
    """By the step times that tasks reported. None: they told nothing of this node."""
    steps_at: float = 0.0
