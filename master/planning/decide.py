"""View → plan: which waiting tasks go where, and for the others why not. The one entry point of the planner."""

from __future__ import annotations

from master.planning.explain import Explainer
from master.planning.model import Plan, View
from master.planning.round import Round


def decide(view: View) -> Plan:
    """The plan depends on nothing but the view, and not on the order of anything in it."""
    decided = Round(view)
    decided.run()
    waiting = Explainer(view, decided).waiting()
    return Plan(decided.placements(), decided.evictions(), waiting, decided.reserved())
