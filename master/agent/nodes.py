"""The life of a node as the master-agent sees it: it says hello, it is heard or not, it comes back. Pure.

Silence is judged by the master's own steady clock alone; a node's clock is never looked at.
"""

from __future__ import annotations

from typing import Any

from grass.model.lifecycle import NodeState, check_node
from grass.model.reasons import Reason, ReasonCode
from grass.model.resources import DEVICE, Resources
from master.agent import tasks
from master.agent.state import NodeRun
from master.agent.step import Step


def on_hello(step: Step, node: NodeRun, body: dict[str, Any]) -> None:
    """The node-agent started: what the machine has, and what runs there."""
    node.info = {
        "version": body.get("version", ""),
        "api_port": body.get("api_port", 0),
        "gpus": body.get("gpus", []),
    }
    node.address = body["address"]
    node.boot = body["boot_id"]
    total = Resources.from_wire(body["resources"])
    if total != node.total:
        held = {gpu for run in step.cluster.jobs.values() for gpu in _held(node.name, run)}
        node.total = total
        node.gpus = set(range(total.gpu // DEVICE)) - held
    heard(step, node)
    step.touch_node(node)
    step.changes.plan = True


def on_heartbeat(step: Step, node: NodeRun, body: dict[str, Any]) -> None:
    node.usage = body.get("usage", {})
    heard(step, node)
    step.touch_node(node)


def heard(step: Step, node: NodeRun) -> None:
    """Anything that a node sends shows that it is there."""
    node.seen = step.now
    node.info["seen_wall"] = step.wall
    if node.state in (NodeState.JOINING, NodeState.SILENT, NodeState.LOST) and node.total != Resources():
        if node.state is NodeState.LOST:
            tasks.adopt(step, node)
        _move(step, node, NodeState.READY, None)
        step.changes.plan = True


def watch(step: Step) -> None:
    """Notice nodes that were not heard for too long. Once a second."""
    for node in step.cluster.nodes.values():
        silence = step.now - node.seen
        limits = step.limits
        if node.state is NodeState.READY and silence > limits.silent_after:
            message = f"not heard for {silence:.0f} s; its tasks go on, it is given up after {limits.lost_after:g} s"
            _move(step, node, NodeState.SILENT, Reason(ReasonCode.NODE_LOST, message))
        elif node.state is NodeState.SILENT and silence > limits.lost_after:
            reason = Reason(ReasonCode.NODE_LOST, f"node {node.name} was not heard for {silence:.0f} s")
            _move(step, node, NodeState.LOST, reason)
            tasks.lose(step, node, reason)
            step.changes.plan = True


def _move(step: Step, node: NodeRun, state: NodeState, reason: Reason | None) -> None:
    check_node(node.state, state)
    node.state, node.reason = state, reason
    text = f"{node.name} is {state.value}" + (f": {reason.message}" if reason else "")
    step.event(f"node-{state.value.lower()}", text, node=node.name)
    step.touch_node(node)


def _held(name: str, run: Any) -> list[int]:
    return [
        gpu
        for component in run.components.values()
        for task in component.tasks.values()
        if task.node == name and task.state.on_node
        for gpu in task.gpus
    ]
