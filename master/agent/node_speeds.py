"""How fast nodes are, from checks and from the steps of tasks: what the planner prefers for gangs. Pure.

Called by ``node_checks`` and the reactor; ``grass.checks.speed`` has the rules.
"""

from __future__ import annotations

from collections.abc import Mapping

from grass.checks import speed
from grass.wire.checks import NodeCheck
from grass.wire.node_speed import NodeSpeed
from master.agent.node_run import NodeRun
from master.agent.step import Step

FADES_EVERY = 600.0
"""Seconds between two looks at how much of what was measured has faded."""


def take_check(step: Step, node: NodeRun, check: NodeCheck) -> None:
    """Keep the times of a check. ``tick`` compares them: checks of many nodes end together."""
    if (found := speed.with_check(node.speed, check)) is not None and found is not node.speed:
        _set(step, node, found)
        step.cluster.models_checked.add(found.model)


def take_steps(step: Step, measured: Mapping[str, float]) -> None:
    for name, each in measured.items():
        if (node := step.cluster.nodes.get(name)) is not None:
            _set(step, node, speed.with_steps(node.speed, each, step.wall))


def tick(step: Step) -> None:
    """Compare new checks with those of other nodes, and let old ones fade. Called every few seconds."""
    cluster = step.cluster
    if cluster.models_checked:
        known = {node.name: node.speed for node in cluster.nodes.values() if node.speed is not None}
        for name, found in speed.beside_others(known, cluster.models_checked).items():
            _set(step, cluster.nodes[name], found)
        cluster.models_checked.clear()
    if step.now - cluster.faded_at >= FADES_EVERY:
        cluster.faded_at = step.now
        for node in cluster.nodes.values():
            if node.speed is not None:
                _set(step, node, node.speed)


def _set(step: Step, node: NodeRun, found: NodeSpeed) -> None:
    found = speed.rated(found, step.wall)
    if found != node.speed:
        node.speed = found
        step.touch_node(node)
