"""Define the commands `grass node stop` and `start`: turn machines of nodes off and on. Loaded by ``node``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from grass.cli import provisioning
from grass.cli.command import Command
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.node_remove import DRAIN_SECONDS
from grass.cli.output import Result
from grass.cli.values import DURATION, DURATION_OR_ZERO, NODE
from grass.errors import GrassError, WaitTimeoutError
from grass.model.lifecycle import NodeState
from grass.provision.provisioner import CanPowerNodes, Powered, need

if TYPE_CHECKING:
    from grass.wire.node_views import NodeAccepted, NodeView

BACK_SECONDS = 600.0
"""Seconds for a machine that was turned on to boot, and for its node-agent to be heard."""
_EMPTY = (NodeState.DRAINED, NodeState.LOST, NodeState.STOPPED)
_DOWN = (NodeState.STOPPED, NodeState.SILENT, NodeState.LOST)


@click.command(cls=Command)
@click.argument("names", nargs=-1, required=True, type=NODE, metavar="NAME…")
@click.option("--deadline", type=DURATION_OR_ZERO, metavar="DURATION", help="Move tasks elsewhere after this time.")
@click.option(
    "--timeout",
    type=DURATION,
    default=DRAIN_SECONDS,
    metavar="DURATION",
    help="How long to wait for tasks; after that, the node stays on.  [default: 1h]",
)
@pass_invocation
def stop(invocation: Invocation, names: Sequence[str], deadline: float | None, timeout: float) -> int:
    """Drain nodes in a cloud (Azure), then turn their machines off: only their disks are paid.

    The nodes are then STOPPED, and keep what is on their disks. Azure promises no machine when they are started again.
    """
    provisioner = need(provisioning.of_cluster(invocation), CanPowerNodes)
    names = list(dict.fromkeys(names))
    return _show(
        invocation,
        provisioner.stop_nodes(names, invocation.client(), lambda ready: drain(invocation, ready, deadline, timeout)),
        "stopped",
    )


@click.command(cls=Command)
@click.argument("names", nargs=-1, required=True, type=NODE, metavar="NAME…")
@pass_invocation
def start(invocation: Invocation, names: Sequence[str]) -> int:
    """Turn machines of STOPPED nodes on again, and wait until the nodes take tasks."""
    provisioner = need(provisioning.of_cluster(invocation), CanPowerNodes)
    names = list(dict.fromkeys(names))
    started = provisioner.start_nodes(names, invocation.client(), lambda name, drained: back(invocation, name, drained))
    return _show(invocation, started, "started")


def drain(
    invocation: Invocation, names: Sequence[str], deadline: float | None, timeout: float
) -> dict[str, GrassError]:
    """Drain all at once, so that none gets the tasks of another; then wait for each. Return why some are not empty."""
    from grass.cli.node_wait import until

    client, output = invocation.client(), invocation.output
    asked: dict[str, NodeAccepted] = {name: client.drain(name, deadline) for name in names}
    failed: dict[str, GrassError] = {}
    for name in names:
        try:
            until(client, output, name, asked[name], _is_empty, timeout)
        except WaitTimeoutError as late:
            ways = f"wait longer with --timeout, move its tasks with --deadline 0s, or `grass node uncordon {name}`"
            failed[name] = WaitTimeoutError(f"{late}. Its machine was not stopped; {ways}")
    return failed


def _is_empty(view: NodeView | None) -> bool:
    return view is None or view.state in _EMPTY


def back(invocation: Invocation, name: str, drained: bool) -> None:
    """Wait until a node is heard. ``drained``: its drain, if `stop` was cut short, ends."""
    from grass.cli.node_wait import until
    from grass.wire.node_views import NodeAccepted

    client, output = invocation.client(), invocation.output
    asked = NodeAccepted(client.node(name), "")
    view = until(client, output, name, asked, lambda view: view is None or view.state not in _DOWN, BACK_SECONDS)
    if drained and view is not None and view.state in (NodeState.DRAINING, NodeState.DRAINED):
        client.uncordon(name)


def _show(invocation: Invocation, ended: Sequence[Powered], done: str) -> int:
    output = invocation.output
    failed = [one for one in ended if one.error is not None]
    for one in failed:
        output.error(f"{one.name}: {str(one.error).removeprefix(f'{one.name}: ')}", code=one.code)
    good = [one for one in ended if one.error is None]
    if good:
        lines = [f"{one.name} is {done}{f'; {one.kept}' if one.kept else ''}" for one in good]
        output.show(Result({done: [one.name for one in good]}, lambda _: lines, [one.name for one in good]))
    return max((one.exit_code if one.exit_code != 2 else 1 for one in failed), default=0)
