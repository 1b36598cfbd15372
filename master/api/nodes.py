"""`/v1/nodes`: the machines of the cluster, and how an administrator changes them.

A change is a ticket to the master-agent. A client sees its outcome by waiting for the node (``/wait``). Used by
``handlers``.
"""

from __future__ import annotations

from grass.errors import ConflictError, NotFoundError
from grass.model.event_kind import EventKind
from grass.model.lifecycle import NodeState
from grass.store.join_tokens import token_id
from grass.wire.calls import Drain, NodeRemoval, NodeStop
from grass.wire.node_record import NodeRecord
from grass.wire.node_views import NodeAccepted, NodesView, NodeView, NodeWaited
from grass.wire.tickets import CordonNode, DrainNode, ReleaseNode, RemoveNode, StopNode, UncordonNode
from master.api.call import Call, Reply
from master.api.node_wait import node_mark, wait_for_node
from master.api.query import parse_duration
from master.api.usage import seen_jobs
from master.api.views import node_view


def list_nodes(call: Call) -> NodesView:
    return NodesView(tuple(node_view(record) for record in call.api.store.nodes()))


def show_node(call: Call, node: str) -> NodeView:
    record = find_node(call, node)
    machines = record.machines.machines if record.machines is not None else ()
    return node_view(record, seen_jobs(call, (key for machine in machines for key in machine.tasks)))


def wait(call: Call, node: str) -> NodeWaited:
    return wait_for_node(call, node)


def cordon(call: Call, node: str) -> Reply:
    return _ticket(call, CordonNode(node, call.user))


def uncordon(call: Call, node: str) -> Reply:
    """Let the node accept tasks again, also after a drain."""
    return _ticket(call, UncordonNode(node, call.user))


def release(call: Call, node: str) -> Reply:
    """End the quarantine that a check began."""
    return _ticket(call, ReleaseNode(node, call.user))


def drain(call: Call, node: str) -> Reply:
    """Place no new tasks on the node, and move its tasks at the deadline."""
    deadline = parse_duration("deadline", call.read(Drain).deadline)
    return _ticket(call, DrainNode(node, call.user, deadline))


def stop(call: Call, node: str) -> Reply:
    """Note that the node's machine is turned off. The node must be drained, so that nothing of it is lost."""
    record, why = find_node(call, node), call.read(NodeStop).why
    if record.state is not NodeState.STOPPED and (record.tasks or record.drain is None):
        raise ConflictError(f"node {node}: is {record.state.value}, not drained; `grass node drain {node}` first")
    return _ticket(call, StopNode(node, call.user, why))


def remove(call: Call, node: str) -> Reply:
    """Remove a node. Without ``force`` it must have no tasks: drain it first.

    The join tokens that its machine used are revoked, so that it comes back only if an administrator invites it."""
    record, force = find_node(call, node), call.read(NodeRemoval).force
    if record.tasks and not force:
        raise ConflictError(
            f"node {node}: still has {record.tasks} task(s); wait for them with `grass node remove --drain {node}`, "
            "or have them placed elsewhere with `--force`"
        )
    if node == call.api.config.master.own_node:
        raise ConflictError(
            f"node {node}: cannot be removed, it runs the cluster itself; `grass delete` ends the cluster"
        )
    for digest in call.api.store.join_tokens.revoke_used_by(node, call.api.wall()):
        what = f"join token {token_id(digest)}: revoked, because node {node}, which joined with it, is being removed"
        call.log_event(EventKind.JOIN_TOKEN, what, node=node)
    return _ticket(call, RemoveNode(node, call.user, force))


def _ticket(call: Call, ticket: CordonNode | UncordonNode | ReleaseNode | DrainNode | StopNode | RemoveNode) -> Reply:
    """Send the ticket. The reply has the node's mark before the change, from which the client can wait."""
    record = find_node(call, ticket.node)
    call.ticket(ticket)
    return Reply(NodeAccepted(node_view(record), node_mark(record)), 202)


def find_node(call: Call, node: str) -> NodeRecord:
    record = call.api.store.node(node)
    if record is None or record.state is NodeState.LEFT:
        raise NotFoundError(f"node {node}: not found; `grass node list` lists all nodes")
    return record
