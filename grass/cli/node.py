"""Define the commands `grass node …`: list nodes and send requests to them.

``node_add``, ``node_remove``, ``node_scale``, ``node_power``, ``join`` and ``leave`` add, remove, stop and start nodes.
Loaded by ``main``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from grass.cli.command import Group
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.node_text import node_list, node_page
from grass.cli.output import Result
from grass.cli.values import DURATION, DURATION_OR_ZERO, NODE
from grass.model.lifecycle import NodeState
from grass.system import clock
from grass.wire.codec import builtins

if TYPE_CHECKING:
    from grass.wire.node_views import NodeView

_LAZY = {
    "token": "grass.cli.node_token:token",
    "check": "grass.cli.node_check:check",
    "add": "grass.cli.node_add:add",
    "remove": "grass.cli.node_remove:remove",
    "scale": "grass.cli.node_scale:scale",
    "stop": "grass.cli.node_power:stop",
    "start": "grass.cli.node_power:start",
    "ssh": "grass.cli.node_ssh:ssh",
    "follow": "grass.cli.node_follow:follow",
}
_TAKEN = 30.0
"""Seconds for the master-agent to accept a ticket; only a faulty cluster needs that long."""


@click.group(cls=Group, lazy=_LAZY)
def node() -> None:
    """Manage the nodes of the cluster."""


@node.command("list")
@pass_invocation
def list_nodes(invocation: Invocation) -> None:
    """List the nodes: state, free and offered resources, number of tasks."""
    nodes = invocation.client().nodes()
    lines = partial(node_list, nodes, clock.wall())
    invocation.output.show(Result(nodes, lines, [one.name for one in nodes]))


@node.command()
@click.argument("name", type=NODE)
@pass_invocation
def show(invocation: Invocation, name: str) -> None:
    """Show one node in detail."""
    client = invocation.client()
    view = client.node(name)
    now = client.node_usage(name).now
    lines = partial(node_page, view, clock.wall(), now=now)
    invocation.output.show(Result({**builtins(view), "now": now}, lines, [view.name]))


@node.command()
@click.argument("name", type=NODE)
@pass_invocation
def cordon(invocation: Invocation, name: str) -> None:
    """Place no new tasks on a node; running tasks continue."""
    from grass.cli.node_wait import until

    client = invocation.client()
    done = until(client, invocation.output, name, client.cordon(name), _is_cordoned, _TAKEN)
    _show(invocation, done)


@node.command()
@click.argument("name", type=NODE)
@pass_invocation
def uncordon(invocation: Invocation, name: str) -> None:
    """Let a node take tasks again, after `cordon` or `drain`. Also accepts its GPUs' ECC errors so far."""
    from grass.cli.node_wait import until

    def open_again(view: NodeView | None) -> bool:
        drained = (NodeState.DRAINING, NodeState.DRAINED)
        return view is None or not (view.cordoned or view.state in drained)

    client = invocation.client()
    _show(invocation, until(client, invocation.output, name, client.uncordon(name), open_again, _TAKEN))


@node.command()
@click.argument("name", type=NODE)
@click.option(
    "--deadline", type=DURATION_OR_ZERO, metavar="DURATION", help="Move tasks to other nodes after this time."
)
@click.option("--timeout", type=DURATION, metavar="DURATION", help="How long to wait; the drain continues.")
@pass_invocation
def drain(invocation: Invocation, name: str, deadline: float | None, timeout: float | None) -> None:
    """Place no new tasks on a node, and wait until its tasks have ended."""
    from grass.cli.node_wait import until

    client = invocation.client()
    asked = client.drain(name, deadline)
    _show(invocation, until(client, invocation.output, name, asked, drained, timeout))


def _is_cordoned(view: NodeView | None) -> bool:
    return view is None or view.cordoned is True


def drained(view: NodeView | None) -> bool:
    return view is None or view.state in (NodeState.DRAINED, NodeState.STOPPED)


def _show(invocation: Invocation, view: NodeView | None) -> None:
    if view is not None:
        invocation.output.show(Result(view, partial(node_page, view, clock.wall()), [view.name]))
