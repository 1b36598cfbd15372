"""Join several machines at once over SSH, with one connection and one thread each.

Used by ``delete``, ``first_nodes``, ``node_remove`` and ``provisioner``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from grass.api.invitation import Invitation, parse_token
from grass.api.join_client import JoinClient
from grass.api.keyring import load_client
from grass.errors import GrassError
from grass.manifest.join_file import Offer
from grass.manifest.on_premises import HostSettings
from grass.provision.on_premises import joining
from grass.provision.on_premises.machines import load_machines, open_host, unpin
from grass.provision.provisioner import AddedNode, Session
from grass.wire.codec import builtins

if TYPE_CHECKING:
    from grass.api.client import Client

TOKEN_SECONDS = 3600.0
_remembering = threading.Lock()


@dataclass(frozen=True)
class Adding:
    """Parameters of `grass node add`. ``client``: the client of an administrator."""

    session: Session
    client: Client
    plan: Callable[[str], None] | None = None
    """Receives the lines of the plan; then nothing is changed. None: join."""


@dataclass(frozen=True)
class Machine:
    settings: HostSettings
    offer: Offer | None
    """None: the one with which it joined before."""


def add_machines(adding: Adding, machines: Sequence[Machine], pool: Executor) -> list[AddedNode]:
    """Join machines. Return one result for each, in order.

    A failure of one machine does not affect the others. A plan needs no token.
    """
    if adding.plan is None:
        invitation = parse_token(adding.client.join_token(None, TOKEN_SECONDS, len(machines)).token)
    else:
        terms = adding.client.join_terms()
        invitation = Invitation(terms.urls, terms.key, "", terms.bundle, terms.cluster)
    keys = load_client(adding.session.client_dir)
    join_client = JoinClient(keys.profile, keys.master())
    try:
        return list(pool.map(lambda machine: _add(adding, join_client, invitation, machine), machines))
    finally:
        join_client.close()


def prepare_machine(adding: Adding, settings: HostSettings) -> None:
    """Install on a machine what a node needs, without making it one. Raises as ``joining.prepare``."""
    session, terms = adding.session, adding.client.join_terms()
    invitation = Invitation(terms.urls, terms.key, "", terms.bundle, terms.cluster)
    keys = load_client(session.client_dir)
    join_client = JoinClient(keys.profile, keys.master())
    try:
        with open_host(settings, session.client_dir, session.ask) as host:
            host.connect()
            joining.prepare(
                host,
                join_client,
                invitation,
                settings.name or host.name,
                progress=session.progress,
                check=lambda request: adding.client.join_check(builtins(request)),
            )
    finally:
        join_client.close()


def _add(adding: Adding, join_client: JoinClient, invitation: Invitation, machine: Machine) -> AddedNode:
    session = adding.session
    host = open_host(machine.settings, session.client_dir, session.ask)
    label, entered = host.name, False
    try:
        with host:
            session.progress(f"{label}: connecting to {host.access}")
            host.connect()
            entered = True
            view = joining.join(
                host,
                join_client,
                invitation,
                machine.offer,
                progress=session.progress,
                plan=adding.plan,
                check=None if adding.plan is None else lambda request: adding.client.join_check(builtins(request)),
                taken_in=lambda name: remember(session.name, session.client_dir, name, machine.settings),
            )
    except joining.NotReachedError as error:
        return AddedNode.failed(label, error, error.view)
    except GrassError as error:
        return AddedNode.failed(label, error, entered=entered)
    return AddedNode(label, view)


def remember(cluster: str, client_dir: Path, node: str, settings: HostSettings | None) -> None:
    """Save how this user reaches the node.

    ``settings`` None: forget the node and its host key, because the machine may be reinstalled.
    """
    with _remembering:
        machines = load_machines(cluster, client_dir.parents[2])
        if machines is None:
            return
        nodes = {name: host for name, host in machines.nodes.items() if name != node}
        if settings is not None:
            nodes[node] = replace(settings, name=node)
        left = replace(machines, nodes=nodes)
        left.save(client_dir)
        gone = machines.nodes.get(node)
        if settings is None and gone is not None:
            unpin(client_dir, gone, left)
