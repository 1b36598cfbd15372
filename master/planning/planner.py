"""View → plan: which waiting tasks go where, and for the others why not.

Demands come in the order in which they are served. Each takes the node that it fills best (best fit over all
resources), so that large tasks find room later. The cost is per demand and node, not per task: an array of
100,000 equal tasks is one demand.
"""

from __future__ import annotations

from collections.abc import Iterable

from grass.model.resources import Resources
from master.planning.reasons import at_limit, why_not
from master.planning.view import Demand, JobLimit, NodeView, Placement, Plan


def plan(nodes: list[NodeView], demands: Iterable[Demand], limit: JobLimit | None = None) -> Plan:
    ledger = {node.name: node.free for node in nodes if node.ready}
    full: set[Resources] = set()
    result = Plan()
    begun: set[str] = set()
    for demand in demands:
        left = demand.count
        begins = demand.queued and demand.job_id not in begun
        if begins and limit is not None and limit.running + len(begun) >= limit.level:
            result.waiting[demand.job_id, demand.component] = at_limit(demand.shape, nodes, limit)
            continue
        if demand.shape not in full:
            left -= _place(demand, ledger, nodes, result.placements)
        if begins and left < demand.count:
            begun.add(demand.job_id)
        if left > 0:
            full.add(demand.shape)
            result.waiting[demand.job_id, demand.component] = why_not(demand.shape, nodes, ledger)
    return result


def _place(demand: Demand, ledger: dict[str, Resources], nodes: list[NodeView], placements: list[Placement]) -> int:
    """Reserve in ``ledger`` as many of the demand's tasks as fit; returns how many."""
    placed = 0
    ready = [node for node in nodes if node.name in ledger and demand.shape.fits(ledger[node.name])]
    for node in sorted(ready, key=lambda node: (_slack(demand.shape, ledger[node.name], node.total), node.name)):
        fitting = demand.shape.times_within(ledger[node.name])
        count = demand.count - placed if fitting is None else min(fitting, demand.count - placed)
        ledger[node.name] -= demand.shape * count
        placements.append(Placement(demand, node.name, count))
        placed += count
        if placed == demand.count:
            break
    return placed


def _slack(shape: Resources, free: Resources, total: Resources) -> float:
    """What would be left unused, as a sum of shares of the node's totals: smaller is the better fit."""
    pairs = (
        (free.cpu - shape.cpu, total.cpu),
        (free.memory - shape.memory, total.memory),
        (free.gpu - shape.gpu, total.gpu),
    )
    return sum(left / size for left, size in pairs if size)
