"""First nodes: the machines under `nodes:` of a settings file. They join at the same time, once the master is ready.

Nodes that are there and run another Grass than the master are upgraded at that time. Used by ``create``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from grass.api.client import Client
from grass.api.keyring import load_profile
from grass.errors import GrassError
from grass.manifest.join_file import Offer
from grass.manifest.on_premises import HostSettings, NodeSettings, OnPremisesSettings
from grass.model.lifecycle import NodeState
from grass.provision.on_premises.machines import load_machines
from grass.provision.on_premises.node_add import Adding, Machine, add_machines
from grass.provision.on_premises.node_upgrade import out_of_reach, outdated
from grass.provision.provisioner import AddedNode, Session

if TYPE_CHECKING:
    from grass.wire.node_views import NodeView

AT_ONCE = 8


class NodesMissingError(GrassError):
    """The master is ready, but a machine did not join, or the master cannot reach a node."""

    code = "nodes-missing"


def join_nodes(
    session: Session, settings: OnPremisesSettings, share: str, bundle: str, *, upgrade: str, again: bool = False
) -> None:
    """Join the machines, and upgrade the nodes that run another Grass than ``bundle``, the master's, a digest.

    ``upgrade``: what is said of a node that is upgraded. ``again``: also join those that are READY, because they lack a
    certificate. Nodes that this user does not reach over SSH are named. Raises NodesMissingError with the machines that
    did not join, were not upgraded or lack something, and why. The other machines are nodes.
    """
    cluster, client_dir = session.name, session.client_dir
    nodes = settings.nodes if settings.join_after_create else ()
    with Client(cluster, home=session.home) as client, ThreadPoolExecutor(AT_ONCE) as pool:
        views, known = client.nodes(), _known(session)
        wanted = list(nodes) if again else _not_yet(nodes, known, views)
        joining = {_way(node.host) for node in wanted}
        others = {name: host for name, host in known.items() if _way(host) not in joining}
        old = outdated(session, others, views, bundle, pool)
        for host in old:
            session.progress(f"{host.name}: {upgrade}")
        for line in out_of_reach(known, views, load_profile(client_dir).url):
            session.progress(line)
        if not wanted and not old:
            return
        new = _remember(cluster, client_dir, [node.host for node in wanted])
        asked = [Machine(node.host, offer_of(node, settings, share)) for node in wanted]
        found = add_machines(Adding(session, client), [*asked, *(Machine(host, None) for host in old)], pool)
        joined, upgraded = found[: len(wanted)], found[len(wanted) :]
        done = [(node.host, one) for node, one in zip(wanted, joined, strict=True)]
        gone = [host for host, one in done if one.view or (not one.entered and host.endpoint in new)]
        _forget(cluster, client_dir, gone)
    if failed := _failed(joined):
        raise _missing(cluster, [*failed, *_failed(upgraded)], len(settings.nodes))
    if failed := _failed(upgraded):
        raise _missing(cluster, failed, len(views), "could not be upgraded")


def join_again(session: Session) -> None:
    """Have all machines that this user reaches over SSH join again: their master is another one, or elsewhere. Tasks go
    on. Raises NodesMissingError with those that did not, and why."""
    machines = list(_known(session).values())
    if not machines:
        return
    with Client(session.name, home=session.home) as client, ThreadPoolExecutor(AT_ONCE) as pool:
        found = add_machines(Adding(session, client), [Machine(host, None) for host in machines], pool)
    if failed := _failed(found):
        raise _missing(session.name, failed, len(machines), "could not be told of the new master")


def _known(session: Session) -> dict[str, HostSettings]:
    known = load_machines(session.name, session.home)
    return known.nodes if known else {}


def _way(host: HostSettings) -> tuple[str, int]:
    return host.address, host.login.port


def _failed(found: Sequence[AddedNode]) -> list[AddedNode]:
    return [one for one in found if one.error is not None]


def _remember(cluster: str, client_dir: Path, hosts: Sequence[HostSettings]) -> set[str]:
    """Save the machines before anything is changed on them.

    `grass delete` then also cleans a machine that never became a node. Returns the names that were not saved before.
    """
    known = load_machines(cluster, client_dir.parents[2])
    if known is None:
        return set()
    known_as = {host.endpoint: host for host in hosts}
    replace(known, nodes={**known_as, **known.nodes}).save(client_dir)
    return known_as.keys() - known.nodes.keys()


def _forget(cluster: str, client_dir: Path, joined: Sequence[HostSettings]) -> None:
    """Forget the host:port entries of machines that now have node names, and of machines that were never reached."""
    known = load_machines(cluster, client_dir.parents[2])
    if known is not None:
        known_as = {host.endpoint for host in joined}
        replace(known, nodes={name: host for name, host in known.nodes.items() if name not in known_as}).save(
            client_dir
        )


def _not_yet(
    nodes: Sequence[NodeSettings], known: Mapping[str, HostSettings], views: Sequence[NodeView]
) -> list[NodeSettings]:
    """Return the machines that are not READY nodes yet."""
    ready = {view.name for view in views if view.state == NodeState.READY}
    there = {_way(host) for name, host in known.items() if name in ready}
    return [node for node in nodes if _way(node.host) not in there]


def offer_of(node: NodeSettings, settings: OnPremisesSettings, share: str) -> Offer:
    return Offer(
        name=node.host.name,
        address=node.host.private_address,
        api_port=node.api_port,
        cpu=node.cpu,
        memory=node.memory,
        gpu=node.gpu,
        labels=node.labels,
        topology=node.topology,
        runtimes=node.runtimes,
        mounts=node.mounts,
        share=share if settings.share else None,
        install=settings.install_node_runtime,
    )


def _missing(cluster: str, failed: Sequence[AddedNode], count: int, fault: str = "did not join") -> NodesMissingError:
    """``fault``: what is said of machines without a view. ``count``: of the nodes."""
    lines = [f"  {one.label}: {(one.error or '').removeprefix(f'{one.label}: ')}" for one in failed]
    outside = sum(one.view is None for one in failed)
    what = fault if outside else "cannot be reached by the master"
    headline = f"cluster {cluster} is ready, but {outside or len(failed)} of its {count} nodes {what}"
    again = ["the same command again tries these again"] if outside else []
    error = NodesMissingError("\n".join([headline, *lines, *again]))
    error.exit_code = max(one.exit_code for one in failed)  # type: ignore[misc]
    return error
