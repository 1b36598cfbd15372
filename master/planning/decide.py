"""Turns a snapshot into a plan: where waiting tasks go, and why the other tasks wait.

The planner's one entry point, for ``master.agent``. Everything in this package is pure: no I/O, no clock. Used by
``master.agent.loop`` and ``master.agent.step``.
"""

from __future__ import annotations

from master.planning.explain import Explainer
from master.planning.model import Plan, Snapshot
from master.planning.round import Round


def decide(snapshot: Snapshot) -> Plan:
    """Return the plan for a snapshot. It depends only on the snapshot, and not on the order of anything in it."""
    decided = Round(snapshot)
    decided.run()
    waiting = Explainer(snapshot, decided).waiting()
    return Plan(
        decided.placements(), decided.evictions(), waiting, decided.reserved(), decided.estimated(), decided.preferred
    )
