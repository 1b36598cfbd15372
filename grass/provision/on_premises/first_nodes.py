"""First nodes: the machines under `nodes:` of a settings file. They join at the same time, once the master is ready."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from grass.api.client import ApiClient
from grass.errors import GrassError
from grass.manifest.join_file import Offer
from grass.manifest.on_premises import HostSettings, NodeSettings, OnPremises
from grass.provision.on_premises.machines import load_machines
from grass.provision.on_premises.node_add import Adding, Machine, add_machines
from grass.provision.provisioner import AddedNode, Session

AT_ONCE = 8


class NodesMissingError(GrassError):
    """The master is ready, but a machine did not join, or the master cannot reach a node."""

    code = "nodes-missing"


def join_nodes(session: Session, machines: OnPremises, share: str, *, again: bool = False) -> None:
    """Join the machines. ``again``: also those that are READY, because they lack a certificate.

    Raises NodesMissingError with the machines that did not join or lack something, and why. The other machines are
    nodes.
    """
    cluster, client_dir = session.name, session.client_dir
    with ApiClient(cluster, home=session.home) as client:
        wanted = list(machines.nodes) if again else _not_yet(cluster, machines.nodes, client, client_dir)
        if not wanted:
            return
        new = _remember(cluster, client_dir, [node.host for node in wanted])
        adding = Adding(session, client)
        with ThreadPoolExecutor(min(AT_ONCE, len(wanted))) as pool:
            found = add_machines(adding, [Machine(node.host, offer_of(node, machines, share)) for node in wanted], pool)
        done = [(node.host, one) for node, one in zip(wanted, found, strict=True)]
        gone = [host for host, one in done if one.view or (not one.entered and host.endpoint in new)]
        _forget(cluster, client_dir, gone)
    if failed := [one for one in found if one.error is not None]:
        raise _missing(cluster, failed, len(machines.nodes))


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


def _not_yet(cluster: str, nodes: Sequence[NodeSettings], client: ApiClient, client_dir: Path) -> list[NodeSettings]:
    """Return the machines that are not READY nodes yet."""
    known = load_machines(cluster, client_dir.parents[2])
    ready = {view["name"] for view in client.nodes() if view["state"] == "READY"}
    there = {(host.address, host.login.port) for name, host in (known.nodes if known else {}).items() if name in ready}
    return [node for node in nodes if (node.host.address, node.host.login.port) not in there]


def offer_of(node: NodeSettings, machines: OnPremises, share: str) -> Offer:
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
        share=share if machines.share else None,
        install=machines.install_node_runtime,
    )


def _missing(cluster: str, failed: Sequence[AddedNode], count: int) -> NodesMissingError:
    lines = [f"  {one.label}: {(one.error or '').removeprefix(f'{one.label}: ')}" for one in failed]
    outside = sum(one.view is None for one in failed)
    what = "did not join" if outside else "cannot be reached by the master"
    headline = f"cluster {cluster} is ready, but {outside or len(failed)} of its {count} nodes {what}"
    again = ["the same command again tries these again"] if outside else []
    error = NodesMissingError("\n".join([headline, *lines, *again]))
    error.exit_code = max(one.exit_code for one in failed)  # type: ignore[misc]
    return error
