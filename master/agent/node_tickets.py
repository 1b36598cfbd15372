"""Tickets on nodes: join, cordon, drain, remove (docs/internals/nodes.md). Called by the reactor. No I/O."""

from __future__ import annotations

from grass.model.event_kind import EventKind
from grass.model.lifecycle import NodeState
from grass.model.names import is_digest, is_name
from grass.model.reasons import Reason, ReasonCode
from grass.wire.tickets import JoinNode
from master.agent import preemption, tasks
from master.agent.node_run import Drain, NodeRun
from master.agent.nodes import accept_ecc_errors, move, update_readiness
from master.agent.set_aside import Work
from master.agent.step import Step

_STOPPABLE = (NodeState.DRAINED, NodeState.SILENT, NodeState.LOST)
"""A machine that is turned off is silent, and lost in the end."""


def join(step: Step, ticket: JoinNode) -> None:
    """Make a record for a node that is about to join, and a redis user with the rights of that node alone."""
    name, user = ticket.name, ticket.user
    # the digest of a password becomes part of a redis user, as the node's name does
    if not is_name(name) or not is_digest(ticket.digest):
        step.event(
            EventKind.NODE_REFUSED,
            f"node {name!r}: join refused; its name or the digest of its password is malformed",
            user,
        )
        return
    node = step.cluster.nodes.get(name)
    if node is not None and (node.state is not NodeState.JOINING or node.digest != ticket.digest):
        step.event(
            EventKind.NODE_REFUSED, f"node {name}: join refused; it exists and is {node.state.value}", user, node=name
        )
        return
    offer = ticket.node
    node = node or NodeRun(name)
    node.address, node.labels, node.path, node.runtimes = offer.address, offer.labels, offer.path, offer.runtimes
    node.digest, node.seen = ticket.digest, step.now
    node.reason = Reason(ReasonCode.PROBE, "waiting for its node-agent to start and pass its probe")
    node.unfit = node.reason
    step.cluster.nodes[name] = node
    step.cluster.left.discard(name)
    step.changes.accounts[name] = ticket.digest
    step.touch_node(node)
    step.event(EventKind.NODE_JOINING, f"node {name}: joining", user, node=name)


def cordon(step: Step, node: NodeRun, user: str) -> None:
    """Place no new tasks on the node."""
    if not node.cordoned:
        node.cordoned = True
        step.event(EventKind.NODE_CORDONED, f"node {node.name}: cordoned; it gets no new tasks", user, node=node.name)
        step.touch_node(node)
        step.changes.plan = True  # as in ``nodes.move``


def uncordon(step: Step, node: NodeRun, user: str) -> None:
    """Accept tasks again, also during or after a drain. Devices with ECC errors leave quarantine."""
    accepted = accept_ecc_errors(node)
    if not (node.cordoned or node.drain is not None or accepted):
        return
    node.cordoned, node.drain = False, None
    step.cluster.leaving.discard(node.name)
    step.event(EventKind.NODE_UNCORDONED, f"node {node.name}: uncordoned; it accepts tasks again", user, node=node.name)
    step.touch_node(node)
    if node.state in (NodeState.DRAINING, NodeState.DRAINED):
        move(step, node, NodeState.READY, None)
        update_readiness(step, node)
    step.changes.plan = True


def drain(step: Step, node: NodeRun, user: str, deadline: float | None) -> None:
    """Empty the node. ``deadline``: seconds until its tasks are stopped; None: never. A second drain changes it."""
    remove_ = node.drain is not None and node.drain.remove
    moment = None if deadline is None else step.later(deadline)
    _begin(step, node, Drain(user, moment, remove_, step.asked.get(user, "")))
    text = "its tasks run to their end" if deadline is None else f"tasks that still run in {deadline:g} s are moved"
    step.event(EventKind.NODE_DRAIN, f"node {node.name}: draining; {text}", user, node=node.name)


def stop(step: Step, node: NodeRun, user: str, why: str) -> None:
    """Note that the machine of a drained node is turned off; of one that is STOPPED, note another reason."""
    reason = Reason(ReasonCode.POWERED_OFF, why or "its machine is turned off")
    if node.state is NodeState.STOPPED:
        node.reason = reason
        step.touch_node(node)
    elif node.drain is None or node.drain.remove or node.live or node.state not in _STOPPABLE:
        message = f"node {node.name}: not stopped; it is {node.state.value} and not drained"
        step.event(EventKind.TICKET_REFUSED, message, user, node=node.name)
    else:
        node.drain = None  # it takes tasks as soon as its machine is back
        step.cluster.leaving.discard(node.name)
        move(step, node, NodeState.STOPPED, reason, user)


def remove(step: Step, node: NodeRun, user: str, force: bool) -> None:
    """Remove the node once it is empty; with ``force`` at once, and its tasks are placed elsewhere."""
    before = node.drain
    _begin(step, node, Drain(user, before.deadline if before else None, remove=True, address=step.asked.get(user, "")))
    if force:
        _lose(step, node)
        _leave(step, node)


def deadline(step: Step, name: str) -> None:
    """Preempt the tasks that are still on the node, if the deadline of its drain has passed."""
    node = step.cluster.nodes.get(name)
    if node is None or node.drain is None or node.drain.deadline is None or node.drain.deadline.at > step.now:
        return
    reason = Reason(ReasonCode.DRAINED, f"stopped because node {node.name} is being drained", {"node": node.name})
    preemption.preempt_all(step, node, reason, node.drain.user)


def settle(step: Step) -> bool:
    """Complete the drain of every node that is empty now. Return whether a node left the cluster."""
    before = len(step.changes.left)
    for name in sorted(step.cluster.leaving):
        work = Work("leave", name)
        if work in step.cluster.set_aside:
            continue
        step.work = work
        node = step.cluster.nodes[name]
        assert node.drain is not None
        if node.state is NodeState.LOST and node.drain.remove:
            _lose(step, node)
        if node.live:
            continue
        if node.drain.remove:
            _leave(step, node)
        elif node.state is NodeState.DRAINING:
            move(step, node, NodeState.DRAINED, None)
    step.work = None
    return len(step.changes.left) > before


def _begin(step: Step, node: NodeRun, how: Drain) -> None:
    node.drain = how
    step.cluster.leaving.add(node.name)
    if node.state in (NodeState.READY, NodeState.QUARANTINED):
        move(step, node, NodeState.DRAINING, None)
    step.touch_node(node)
    if how.deadline is not None:
        step.agenda.add(how.deadline.at, "drain", node.name)


def _lose(step: Step, node: NodeRun) -> None:
    """Treat the node's tasks as lost, without waiting for the node to come back."""
    message = f"node {node.name} was removed from the cluster"
    tasks.lose(step, node, Reason(ReasonCode.NODE_LOST, message, {"node": node.name}))
    tasks.give_up(step, node)


def _leave(step: Step, node: NodeRun) -> None:
    cluster, name, by = step.cluster, node.name, node.drain or Drain("")
    for key in node.launches:
        cluster.jobs[key.job_id].nodes.pop(name, None)
        cluster.cache.launch_changed(name, key)
    node.launches.clear()
    for run in cluster.jobs.values():
        run.nodes.pop(name, None)
    move(step, node, NodeState.LEFT, None)
    del cluster.nodes[name]
    cluster.leaving.discard(name)
    cluster.left.add(name)
    step.changes.nodes.pop(name, None)
    step.changes.desired.pop(name, None)
    step.changes.left.append(name)
    step.changes.accounts[name] = None
    step.event(EventKind.NODE_REMOVED, f"node {name}: removed from the cluster", by.user, node=name, address=by.address)
    step.changes.plan = True
