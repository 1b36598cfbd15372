"""Define the commands `grass node follow` and `grass cluster notice`. Loaded by ``node`` and ``cluster_logs``."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import click

from grass.cli.command import Command
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.node_text import node_page
from grass.cli.output import Result
from grass.errors import InputError
from grass.system import clock

_LONGEST = 16_384


@click.command(cls=Command)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path, allow_dash=True), required=False)
@click.option("--of", "of", metavar="CLUSTER", help="Which cluster, if this machine is a node of several.")
@click.option("--rootless", is_flag=True, help="This user's node, which joined with --rootless.")
@pass_invocation
def follow(invocation: Invocation, file: Path | None, of: str | None, rootless: bool) -> None:
    """Find the master of this machine's cluster where it is now, after a move, failover or restore.

    FILE is what `grass cluster notice` printed. Without FILE, the addresses that this node knows are asked. Nothing is
    followed that the cluster's key has not signed. Tasks go on. Needs root or sudo.
    """
    from grass.cli.join import own_machine
    from grass.cli.leave import own_cluster
    from grass.provision.on_premises import following, own_host

    output = invocation.output
    paths = own_host.own_paths(own_cluster(of)) if rootless else None
    cluster = of if paths is None else paths.cluster
    text = None if file is None else _read(file)
    done = following.follow(own_machine(rootless), cluster, text, progress=output.note, paths=paths)
    if done.view is not None:
        output.show(Result(done.view, partial(node_page, done.view, clock.wall()), [done.node]))
        return
    said = f"{os.uname().nodename}: its master is at {done.url}, as it knows; nothing was changed"
    output.show(Result({"node": done.node, "url": done.url}, lambda _: [said], [done.node]))


def _read(file: Path) -> str:
    try:
        with click.open_file(str(file), errors="replace") as source:
            return str(source.read(_LONGEST + 1))
    except OSError as error:
        raise InputError(f"{file}: {error.strerror or error}") from error


@click.command(cls=Command)
@pass_invocation
def notice(invocation: Invocation) -> None:
    """Print where the master is, signed with the cluster's key: for `grass node follow` on a node that lost it.

    The notice is no secret. An older one, of before a move, is refused.
    """
    text = invocation.client().notice()
    invocation.output.show(Result({"notice": text}, lambda _: [text], [text]))
