"""Define the command `grass node remove`: remove a node from the cluster, and clean its machine over SSH.

Loaded by ``node``.
"""

from __future__ import annotations

from collections.abc import Sequence

import click

from grass.cli import provisioning
from grass.cli.command import Command
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Result
from grass.cli.values import DURATION_OR_ZERO, NODE
from grass.errors import GrassError, InputError


@click.command(cls=Command)
@click.argument("names", nargs=-1, required=True, type=NODE, metavar="NAME…")
@click.option("--drain", is_flag=True, help="First wait until the node's tasks have ended.")
@click.option(
    "--deadline",
    type=DURATION_OR_ZERO,
    metavar="DURATION",
    help="With --drain: move tasks to other nodes after this time.",
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
    for name in names:
        invocation.client().node(name)
    if not yes and not output.ask(f"Remove {', '.join(names)} from the cluster?"):
        output.note("nothing was changed")
        return 130
    worst, gone = 0, []
    for name in names:
        try:
            _remove(invocation, name, drain, deadline, force, packages)
            gone.append(name)
        except GrassError as error:
            output.error(f"{name}: {error}", code=error.code)
            worst = max(worst, error.exit_code)
    if gone:
        lines = [f"{name} is no longer part of the cluster" for name in gone]
        output.show(Result({"removed": gone}, lambda _: lines, gone))
    return worst


def _remove(
    invocation: Invocation, name: str, drain: bool, deadline: float | None, force: bool, packages: bool
) -> None:
    from grass.cli.node import drained
    from grass.cli.node_wait import until

    client, output = invocation.client(), invocation.output

    def take_out() -> None:
        if drain:
            until(client, output, name, client.drain(name, deadline), drained)
        until(client, output, name, client.remove_node(name, force), lambda view: view is None)

    provisioning.of_cluster(invocation).remove_node(name, take_out, force=force, packages=packages)
