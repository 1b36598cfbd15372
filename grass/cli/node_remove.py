"""Define the command `grass node remove`: remove a node from the cluster, and clean its machine over SSH.

Loaded by ``node``; ``node_scale`` takes nodes out as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from grass.cli import provisioning
from grass.cli.command import Command
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Result
from grass.cli.values import DURATION, DURATION_OR_ZERO, NODE
from grass.errors import GrassError, InputError, WaitTimeoutError
from grass.provision.provisioner import CanRemoveNodes, need

if TYPE_CHECKING:
    from grass.api.client import Client


DRAIN_SECONDS = 3600.0
_NAMED, _MOST_JOBS = 5, 100
GONE_SECONDS = 60.0
"""Seconds in which the master-agent removes a node that has no tasks."""


@click.command(cls=Command)
@click.argument("names", nargs=-1, required=True, type=NODE, metavar="NAME…")
@click.option("--drain", is_flag=True, help="First wait until the node's tasks have ended.")
@click.option(
    "--deadline",
    type=DURATION_OR_ZERO,
    metavar="DURATION",
    help="With --drain: move tasks to other nodes after this time.",
)
@click.option(
    "--timeout",
    type=DURATION,
    default=DRAIN_SECONDS,
    metavar="DURATION",
    help="With --drain: how long to wait for its tasks; after that, nothing is removed.  [default: 1h]",
)
@click.option("--force", is_flag=True, help="Remove the node even if it has tasks or its machine does not answer.")
@click.option("--packages", is_flag=True, help="Also remove system packages that were installed for it.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation. (Without a terminal, nothing is asked.)")
@pass_invocation
def remove(
    invocation: Invocation,
    names: Sequence[str],
    drain: bool,
    deadline: float | None,
    timeout: float,
    force: bool,
    packages: bool,
    yes: bool,
) -> int:
    """Remove nodes from the cluster. Also removes what joining made on their machines.

    The machines are reached as `grass node add` reached them. On a machine that joined by itself, run `grass leave`
    afterwards. The join tokens with which they joined are revoked: make new ones to let the machines join again.
    """
    if deadline is not None and not drain:
        raise InputError("--deadline needs --drain")
    output = invocation.output
    provisioner = need(provisioning.of_cluster(invocation), CanRemoveNodes)
    for name in names:
        if not provisioner.keeps(name):
            invocation.client().node(name)
    if not yes and not output.ask(f"Remove {', '.join(names)} from the cluster?"):
        output.note("nothing was changed")
        return 130
    worst, gone = 0, []
    for name in names:
        try:
            _remove(invocation, provisioner, name, timeout if drain else None, deadline, force, packages)
            gone.append(name)
        except GrassError as error:
            output.error(f"{name}: {error}", code=error.code)
            worst = max(worst, error.exit_code)
    if gone:
        lines = [f"{name} is no longer part of the cluster" for name in gone]
        output.show(Result({"removed": gone}, lambda _: lines, gone))
    return worst


def _remove(
    invocation: Invocation,
    provisioner: CanRemoveNodes,
    name: str,
    drain: float | None,
    deadline: float | None,
    force: bool,
    packages: bool,
) -> None:
    provisioner.remove_node(
        name,
        lambda: take_out(invocation, name, drain, deadline, force=force),
        force=force,
        packages=packages,
    )


def take_out(invocation: Invocation, name: str, drain: float | None, deadline: float | None, *, force: bool) -> None:
    """Remove a node from the cluster. ``drain``: for how long to wait for its tasks; None: not at all."""
    from grass.cli.node_wait import until

    client = invocation.client()
    if drain is not None:
        drain_first(invocation, name, deadline, drain)
    asked = client.remove_node(name, force)
    until(client, invocation.output, name, asked, lambda view: view is None, GONE_SECONDS)


def drain_first(invocation: Invocation, name: str, deadline: float | None, seconds: float) -> None:
    """Drain the node, and wait until it has no tasks. Raises WaitTimeoutError with the ways to go on."""
    from grass.cli.node import drained
    from grass.cli.node_wait import until

    client, output = invocation.client(), invocation.output
    asked = client.drain(name, deadline)
    if tasks := _tasks_on(client, name):
        more = f" and {len(tasks) - _NAMED} more" if len(tasks) > _NAMED else ""
        count = f"{len(tasks)} task{'s' if len(tasks) > 1 else ''}"
        output.note(f"{name}: waits for {count}: {', '.join(tasks[:_NAMED])}{more}, at most {seconds:g} s")
    try:
        until(client, output, name, asked, drained, seconds)
    except WaitTimeoutError as late:
        raise WaitTimeoutError(
            f"{late}. The node was not removed; wait longer with --timeout, move its tasks with --deadline 0s, or "
            f"end the drain with `grass node uncordon {name}`"
        ) from late


def _tasks_on(client: Client, node: str) -> list[str]:
    """Return the tasks on the node, of the newest active jobs."""
    return [
        f"{job.name}/{task.task}"
        for job in client.jobs()[:_MOST_JOBS]
        for task in client.tasks(job.id)
        if task.node == node and task.state.on_node
    ]
