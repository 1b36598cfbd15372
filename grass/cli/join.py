"""Define the command `grass join`, which makes this machine a node. Loaded by ``main``."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from grass.cli.command import Command
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.node_text import node_page
from grass.cli.offer import OfferOptions, offer_options, offered
from grass.cli.output import Result
from grass.errors import InputError
from grass.system import clock

if TYPE_CHECKING:
    from grass.hosts import Host
    from grass.manifest.join_file import JoinFile


@click.command(cls=Command)
@click.argument("where", required=False, metavar="[MASTER | FILE]")
@click.option("--token", metavar="TOKEN", help="Join token, from `grass node token` on an administrator's machine.")
@click.option("--name", metavar="NAME", help="Name of the node. [default: the host name]")
@offer_options
@click.option("--rootless", is_flag=True, help="Join without root: files in ~/.grass, user services, no containers.")
@pass_invocation
def join(
    invocation: Invocation,
    /,
    where: str | None,
    token: str | None,
    name: str | None,
    plan: bool,
    rootless: bool,
    **given: Any,
) -> None:
    """Make this machine a node of a cluster. Waits until the node's self-test has passed.

    MASTER is HOST or HOST:PORT; it overrides the address in the token. FILE is a join file, Grass's or MARO's. Needs
    root or sudo. After an interruption, run the same command again to continue.
    """
    from grass.api.invitation import parse_token
    from grass.api.join_client import open_join_client
    from grass.provision.on_premises import joining, own_host

    file = _file(where)
    offer = offered(file.offer, OfferOptions(**given))
    if name is not None:
        offer = replace(offer, name=name)
    token = token or file.token
    if token is None:
        raise InputError("--token is missing; an administrator creates one with `grass node token`")
    invitation = parse_token(token)
    output = invocation.output
    host, paths = own_machine(rootless), own_host.own_paths(invitation.cluster) if rootless else None
    if rootless:
        output.note("without `loginctl enable-linger` the node stops when its user logs out")
    join_client = open_join_client(invitation, file.url or None)
    try:
        tell = (lambda line: output.raw(line + "\n")) if plan else None
        view = joining.join(host, join_client, invitation, offer, progress=output.note, paths=paths, plan=tell)
    finally:
        join_client.close()
    if view is not None:
        output.show(Result(view, partial(node_page, view, clock.wall()), [view.name]))


def _file(where: str | None) -> JoinFile:
    from grass.document_file import load_document
    from grass.manifest.join_file import JoinFile, Offer, parse_join

    if where is None:
        return JoinFile("", Offer())
    if where.endswith((".yml", ".yaml", ".json")) or Path(where).is_file():
        return parse_join(load_document(Path(where)), where)
    return JoinFile(_url(where), Offer())


def _url(where: str) -> str:
    from grass.manifest.on_premises import API_PORT, Login, spelled_host
    from grass.manifest.values import Wrong
    from grass.network_address import network_address

    bare = where.removeprefix("http://").rstrip("/")
    try:
        spelled = spelled_host(bare, Login(port=API_PORT))
    except Wrong as wrong:
        raise InputError(f"MASTER {wrong}") from wrong
    return f"http://{network_address(spelled.address, spelled.login.port)}"


def own_machine(rootless: bool) -> Host:
    from grass.hosts import Become, LocalHost, Secret
    from grass.hosts.host import prompt
    from grass.provision.on_premises.own_host import OwnHost
    from grass.system.environment import become_password

    if rootless:
        return OwnHost(os.uname().nodename)
    become = become_password()
    return LocalHost(os.uname().nodename, become=Become.SUDO, password=Secret(become) if become else None, ask=prompt)
