"""Take what checks found about nodes: history, quarantine, and its end. Called by the reactor. No I/O."""

from __future__ import annotations

from grass.model.event_kind import EventKind
from grass.model.reasons import Details, Reason, ReasonCode
from grass.wire.checks import NodeCheck
from master.agent import checks_before, node_speeds
from master.agent.node_run import NodeRun
from master.agent.nodes import update_devices, update_readiness
from master.agent.step import Step

_ALONE = ("gpu", "host", "gpu and host", "host and gpu")
"""Faults that a node finds by itself: a check at level 1 suffices to see them gone."""


def take(step: Step, node: NodeRun, check: NodeCheck) -> None:
    """Keep a check. A bad node, or its bad devices, get no new tasks until a check that reaches as far is good."""
    verdict, name = check.verdict, node.name
    node.check = check
    node_speeds.take_check(step, node, check)
    step.changes.checks.append((name, check))
    seen = f": {'; '.join(verdict.evidence)}" if verdict.evidence else ""
    fault = f" ({verdict.fault})" if verdict.fault else ""
    text = f"node {name}: checked at level {check.level}; {verdict.state}{fault}{seen}"
    step.event(EventKind.NODE_CHECKED, " · ".join((text, *check.between)), check.user, node=name)
    if verdict.state == "bad":
        _condemn(node, check)
    elif verdict.state == "good" and check.level >= _needed(node):
        node.condemned = None
        node.bad_devices.clear()
    checks_before.over(step, node, check)
    _update(step, node)


def release(step: Step, node: NodeRun, user: str) -> None:
    """End the quarantine of a node and its devices that checks began."""
    if node.condemned is None and not node.bad_devices:
        return
    node.condemned = None
    node.bad_devices.clear()
    text = f"node {node.name}: released from the quarantine of its last check; it gets tasks again"
    step.event(EventKind.NODE_CHECKED, text, user, node=node.name)
    _update(step, node)


def _condemn(node: NodeRun, check: NodeCheck) -> None:
    verdict = check.verdict
    what = f"{verdict.fault}: {'; '.join(verdict.evidence)}"
    level = min(check.level, 1) if verdict.fault in _ALONE else 2
    if verdict.devices:
        node.bad_devices |= dict.fromkeys(verdict.devices, f"a check found {what}; check {node.name} again")
        return
    ends = f"`grass node check {node.name} --level {level}` ends this when it is good"
    details = Details(node=node.name, level=level, evidence=list(verdict.evidence))
    node.condemned = Reason(ReasonCode.CHECK, f"a check found {what}; {ends}", details)


def _needed(node: NodeRun) -> int:
    """Return the level at which a check must be good to end the node's quarantine."""
    return max(node.condemned.details.get("level", 0) if node.condemned else 0, 1 if node.bad_devices else 0)


def _update(step: Step, node: NodeRun) -> None:
    for message in filter(None, update_devices(node)):
        step.event(EventKind.GPU_QUARANTINE, message, node=node.name)
    update_readiness(step, node)
    step.touch_node(node)
    step.changes.plan = True
