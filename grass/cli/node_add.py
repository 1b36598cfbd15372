"""`grass node add`: machines become nodes over SSH, several at once."""

from __future__ import annotations

import ipaddress
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from grass import clock, environment
from grass.cli.command import Command
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.node_views import node_list
from grass.cli.offer import offer_options, offered
from grass.cli.output import Output, Result
from grass.errors import InputError

if TYPE_CHECKING:
    from grass.manifest.on_premises import HostSettings
    from grass.provision.on_premises.node_add import Added

AT_ONCE = 8


@click.command(cls=Command)
@click.argument("hosts", nargs=-1, required=True, metavar="[USER@]HOST[:PORT]…")
@click.option("--name", metavar="NAME", help="Of the node, if it is one. [default: the machine's]")
@click.option("--key", type=click.Path(exists=True, dir_okay=False), help="Private key for SSH.")
@click.option("--become", type=click.Choice(["none", "sudo"]), help="How to become root. [default: as for the master]")
@offer_options
@pass_invocation
def add(
    invocation: Invocation,
    /,
    hosts: Sequence[str],
    name: str | None,
    key: str | None,
    become: str | None,
    plan: bool,
    **given: Any,
) -> int:
    """Make machines nodes of the cluster, over SSH, and wait until each has proved that it can work.

    What was interrupted is finished by the same command. Passwords: asked for, or taken from GRASS_SSH_PASSWORD and
    GRASS_BECOME_PASSWORD.
    """
    from grass.manifest.join_file import Offer
    from grass.provision.on_premises.machines import load_machines
    from grass.provision.on_premises.node_add import Adding, add_all

    if name is not None and len(hosts) > 1:
        raise InputError("--name is for one machine; several have their own names")
    cluster = invocation.existing_cluster()
    machines = load_machines(cluster)
    if machines is None:
        raise InputError(f"cluster {cluster} is on this machine only; nodes join a cluster of mode grass/on-premises")
    login = machines.master.login
    login = replace(login, port=22, key=str(Path(key).absolute()) if key else login.key)
    wanted = [_settings(text, login, become) for text in hosts]
    check_distinct(wanted)
    output = invocation.output
    offer = replace(offered(Offer(), given), name=name)
    adding = Adding(
        cluster,
        environment.cluster_home(cluster) / "client",
        invocation.client(),
        offer,
        progress=_one_at_a_time(output),
        ask=_asks_once(),
        plan=(lambda line: output.raw(line + "\n")) if plan else None,
    )
    with ThreadPoolExecutor(min(AT_ONCE, len(wanted))) as pool:
        results = add_all(adding, wanted, pool)
    return _report(output, results, plan)


def _settings(text: str, login: Any, become: str | None) -> HostSettings:
    from grass.manifest.on_premises import Become, spelled_host
    from grass.manifest.values import Wrong

    try:
        found = spelled_host(text, login)
    except Wrong as wrong:
        raise InputError(f"HOST {wrong}") from wrong
    return replace(found, login=replace(found.login, become=Become(become))) if become else found


def check_distinct(wanted: Sequence[HostSettings]) -> None:
    """InputError: a machine stands there twice, so that it would join twice at the same time."""
    seen = set()
    for host in wanted:
        place = (_spelled_once(host.address), host.login.port)
        if place in seen:
            raise InputError(f"{host.address}, port {host.login.port}, is named twice; each machine joins once")
        seen.add(place)


def _spelled_once(address: str) -> str:
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return address.lower().rstrip(".")


def _report(output: Output, results: Sequence[Added], plan: bool) -> int:
    failed = [one for one in results if one.error is not None]
    for one in failed:
        text = str(one.error)
        output.error(f"{one.label}: {text.removeprefix(f'{one.label}: ')}" if len(results) > 1 else text, code=one.code)
    if not plan:
        views = [one.view for one in results if one.view is not None]
        if views:
            lines = partial(node_list, views, clock.wall())
            output.show(Result(views, lines, [view["name"] for view in views]))
    return max((one.exit_code for one in failed), default=0)


def _one_at_a_time(output: Output) -> Any:
    lock = threading.Lock()

    def tell(line: str) -> None:
        with lock:
            output.note(line)

    return tell


def _asks_once() -> Any:
    """Several machines may want a password at the same time; each question is asked for itself."""
    from grass.hosts.port import prompt

    lock = threading.Lock()

    def ask(question: str) -> str | None:
        with lock:
            return prompt(question)

    return ask
