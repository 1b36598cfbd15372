"""`grass node remove`: the cluster lets a node go, and its machine is cleaned over SSH."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from grass import environment
from grass.cli.command import Command
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Result
from grass.cli.values import DURATION_OR_ZERO, NODE
from grass.errors import GrassError, InputError

if TYPE_CHECKING:
    from grass.hosts.ssh import SshHost


@click.command(cls=Command)
@click.argument("names", nargs=-1, required=True, type=NODE, metavar="NAME…")
@click.option("--drain", is_flag=True, help="First wait until its tasks have ended.")
@click.option("--deadline", type=DURATION_OR_ZERO, metavar="DURATION", help="With --drain: then they go elsewhere.")
@click.option("--force", is_flag=True, help="Although it has tasks, or its machine does not answer.")
@click.option("--packages", is_flag=True, help="Also remove the packages that were installed for it.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask. (Without a terminal, nothing is asked.)")
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
    """Take nodes out of the cluster, and remove what joining made on their machines.

    The machines are reached as `grass node add` did; on one that joined by itself, say `grass leave` afterwards.
    """
    if deadline is not None and not drain:
        raise InputError("--deadline is for --drain")
    output = invocation.output
    for name in names:
        invocation.client().node(name)
    if not yes and not output.ask(f"Take {', '.join(names)} out of the cluster?"):
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
        lines = [f"{name} is no part of the cluster any more" for name in gone]
        output.show(Result({"removed": gone}, lambda _: lines, gone))
    return worst


def _remove(
    invocation: Invocation, name: str, drain: bool, deadline: float | None, force: bool, packages: bool
) -> None:
    from grass.cli.node import drained
    from grass.cli.node_wait import until

    client, output = invocation.client(), invocation.output
    host = _reach(invocation, name, force)
    if drain:
        until(client, output, name, client.drain(name, deadline), drained)
    until(client, output, name, client.remove_node(name, force), lambda view: view is None)
    if host is None:
        _forget(invocation, name)
        return
    with host:
        _clean(invocation, host, name, packages)


def _reach(invocation: Invocation, name: str, force: bool) -> SshHost | None:
    """Before anything is changed. None: nobody here knows how, or it is away and that is all right."""
    from grass.hosts import AccessRefusedError, HostUnreachableError
    from grass.hosts.port import prompt
    from grass.provision.on_premises.machines import load_machines, open_host

    cluster = invocation.existing_cluster()
    machines = load_machines(cluster)
    settings = machines.nodes.get(name) if machines else None
    if settings is None:
        invocation.output.note(f"{name} joined by itself: `grass leave --force` on it removes what that made there")
        return None
    host = open_host(settings, environment.cluster_home(cluster) / "client", prompt)
    try:
        host.connect()
        host.become_root()
    except (HostUnreachableError, AccessRefusedError) as error:
        if not force:
            raise type(error)(
                f"nothing was changed, because its machine cannot be cleaned: {error}. --force takes it out of the "
                "cluster all the same"
            ) from error
        invocation.output.warn(f"{name}: its machine keeps what joining made ({error}); `grass leave` there removes it")
        return None
    return host


def _clean(invocation: Invocation, host: SshHost, name: str, packages: bool) -> None:
    from grass.provision.on_premises import leaving, node_places
    from grass.provision.on_premises.facts import gather

    cluster = invocation.existing_cluster()
    facts = gather(host, cluster)
    leaving.clean(
        host, facts, node_places.of_root(cluster, facts.config), invocation.output.note, name, packages=packages
    )
    _forget(invocation, name)


def _forget(invocation: Invocation, name: str) -> None:
    from grass.provision.on_premises.node_add import remember

    cluster = invocation.existing_cluster()
    remember(cluster, environment.cluster_home(cluster) / "client", name, None)
