"""Turns a view into a plan: where waiting tasks go, and why the other tasks wait.

The planner's one entry point, for ``master.agent``. Everything in this package is pure: no I/O, no clock. Used by
``master.agent.loop`` and ``master.agent.step``.
"""

from __future__ import annotations

from master.planning.explain import Explainer
from master.planning.model import Plan, View
from master.planning.round import Round


def decide(view: View) -> Plan:
    """Return the plan for a view. The plan depends only on the view, and not on the order of anything in the view."""
    decided = Round(view)
    decided.run()
    waiting = Explainer(view, decided).waiting()
    return Plan(decided.placements(), decided.evictions(), waiting, decided.reserved())
