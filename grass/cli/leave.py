"""Define the command `grass leave`, which removes this machine from its cluster. Loaded by ``main``."""

from __future__ import annotations

import os

import click

from grass.cli.command import Command
from grass.cli.exits import Exit
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Result
from grass.cli.values import DURATION
from grass.errors import InputError


@click.command(cls=Command)
@click.argument("of", required=False, metavar="[CLUSTER]")
@click.option("--force", is_flag=True, help="Do not wait for tasks or for a master that does not answer.")
@click.option(
    "--timeout",
    type=DURATION,
    default=3600.0,
    metavar="DURATION",
    help="How long to wait for tasks to end.  [default: 1h]",
)
@click.option("--packages", is_flag=True, help="Also remove system packages that were installed for it.")
@click.option("--rootless", is_flag=True, help="Remove this user's node, which joined with --rootless.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation. (Without a terminal, nothing is asked.)")
@pass_invocation
def leave(
    invocation: Invocation,
    of: str | None,
    force: bool,
    timeout: float,
    packages: bool,
    rootless: bool,
    yes: bool,
) -> Exit:
    """Remove this machine from CLUSTER, with everything that joining made here.

    Waits until the node's tasks have ended. System packages that were installed stay and are listed, unless --packages
    is given.
    """
    from grass.cli.join import own_machine
    from grass.provision.on_premises import leaving, own_host

    output = invocation.output
    paths = own_host.own_paths(own_cluster(of)) if rootless else None
    asked: list[bool] = []

    def may_go(name: str) -> bool:
        asked.append(yes or output.ask(f"Remove node {name} from its cluster, and Grass from this machine?"))
        return asked[-1]

    try:
        name = leaving.leave(
            own_machine(rootless),
            of if paths is None else paths.cluster,
            progress=output.note,
            force=force,
            timeout=timeout,
            paths=paths,
            may_go=may_go,
            packages=packages,
        )
    except InputError:
        if asked == [False]:
            output.note("nothing was changed")
            return Exit.INTERRUPTED
        raise
    where = os.uname().nodename
    output.show(Result({"node": name}, lambda _: [f"{where}: left the cluster; it was node {name}"], [name]))
    return Exit.OK


def own_cluster(named: str | None) -> str:
    """Return the cluster that is meant. Raises InputError if none is named, unless this user has one rootless node."""
    from grass.provision.on_premises import own_host

    clusters = own_host.own_clusters()
    if named is None and len(clusters) != 1:
        raise InputError(f"name the cluster; this user's rootless nodes belong to: {', '.join(clusters) or 'none'}")
    return clusters[0] if named is None else named
