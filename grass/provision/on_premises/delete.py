"""`grass delete` of a cluster on several hosts: clean the nodes, then the master, then this machine's client files.

A host that cannot be cleaned stops the call before any other host is cleaned. ``force`` skips such hosts, and the
result names the hosts that keep files of Grass. Called by ``provisioner``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from grass.api.client import Client
from grass.errors import GrassError, UnreachableError
from grass.manifest.on_premises import HostSettings
from grass.model.lifecycle import NodeState
from grass.model.namespace import is_namespace
from grass.provision.filelock import cluster_lock
from grass.provision.on_premises import namespace_nodes, node_paths
from grass.provision.on_premises.facts import gather
from grass.provision.on_premises.leaving import clean
from grass.provision.on_premises.machines import Machines, load_machines, open_host
from grass.provision.on_premises.node_add import remember
from grass.provision.on_premises.removal import removal_steps
from grass.provision.on_premises.steps import run_steps
from grass.provision.provisioner import Deleted, Session
from grass.system import clock
from grass.system.tree_removal import remove_tree

AT_ONCE = 5
_GONE_SECONDS = 10.0


class StayedError(UnreachableError):
    """Some hosts could not be cleaned; the cluster still exists."""

    code = "hosts-stayed"


def delete(session: Session, *, force: bool, packages: bool) -> Deleted:
    """Delete the cluster. A repeated call continues an interrupted one.

    Raises StayedError: a host could not be cleaned, and ``force`` was not given.
    """
    with cluster_lock(session.home, session.name):
        machines = load_machines(session.name, session.home)
        # without machines: an interrupted call left only the folder to remove
        left = _delete_hosts(session, machines, force, packages) if machines is not None else {}
        remove_tree(session.folder)
    return Deleted(left)


def _delete_hosts(session: Session, machines: Machines, force: bool, packages: bool) -> dict[str, str]:
    """Clean the hosts. Check all hosts before cleaning the first: a failed check stops the call without changes."""
    last = [host for host in (machines.standby, machines.master) if host is not None]
    masters = {host.name or host.address: host for host in last}
    left = clean_nodes(session, machines, force, packages, also_reached=masters)
    for name, host in masters.items():
        try:
            clean_master(session, host, packages=packages)
        except GrassError as error:
            if not force:
                raise
            left[name] = str(error)
    return left


def clean_master(session: Session, host: HostSettings, *, packages: bool = False) -> None:
    """Remove what Grass made on the machine of a master or a standby."""
    _clean(session, "", host, packages)


def clean_nodes(
    session: Session,
    machines: Machines,
    force: bool,
    packages: bool,
    *,
    also_reached: dict[str, HostSettings],
    skip: Collection[str] = (),
) -> dict[str, str]:
    """Clean the nodes, except ``skip``, once they and ``also_reached`` answer. Return what is left. Raises StayedError
    unless ``force``."""
    left = _self_joined(session, machines)
    machines = replace(machines, nodes={name: host for name, host in machines.nodes.items() if name not in skip})
    if not force:
        away = _out_of_reach(session, replace(machines, nodes={**machines.nodes, **also_reached}))
        if left or away:
            raise StayedError(_text(session.name, {**left, **away}, "nothing was changed"))
    failed = _on_nodes(machines, lambda _, host: _clean(session, "node", host, packages))
    left |= failed
    if left and not force:
        _take_out(session, machines.nodes.keys() - failed.keys())
        raise StayedError(_text(session.name, left, "the other nodes have left it"))
    return left


def _self_joined(session: Session, machines: Machines) -> dict[str, str]:
    """Return the nodes that joined by themselves and cannot be reached from here. Without the API, none are known."""
    try:
        with Client(session.name, home=session.home) as client:
            nodes = client.nodes()
    except (GrassError, OSError, ValueError):
        return {}
    ours = {address for host in machines.nodes.values() for address in (host.address, host.private_address)}
    return {
        node.name: "it joined by itself: run `grass leave` on that machine first"
        for node in nodes
        if node.name not in machines.nodes
        and node.address not in ours
        and node.state != NodeState.LEFT
        and not is_namespace(node.runtimes or ())
    }


def _out_of_reach(session: Session, machines: Machines) -> dict[str, str]:
    def reach(_: str, settings: HostSettings) -> None:
        with open_host(settings, session.client_dir, session.ask) as host:
            host.become_root()

    return _on_nodes(machines, reach)


def _on_nodes(machines: Machines, work: Callable[[str, HostSettings], None]) -> dict[str, str]:
    """Run ``work`` on several nodes at once. Return the failed nodes with the reason."""

    def one(item: tuple[str, HostSettings]) -> tuple[str, str]:
        try:
            work(*item)
        except GrassError as error:
            return item[0], str(error)
        return item[0], ""

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return {node: why for node, why in pool.map(one, machines.nodes.items()) if why}


def _take_out(session: Session, cleaned: Collection[str]) -> None:
    """Remove the cleaned nodes from the list of the cluster, which stays; they can be added again."""
    try:
        with Client(session.name, home=session.home) as client:
            known = {node.name for node in client.nodes()}
            for name in sorted(known.intersection(cleaned)):
                client.remove_node(name, force=True)
                _wait_until_gone(client, name)
    except GrassError as error:
        session.progress(f"{', '.join(sorted(cleaned))}: cleaned, but still in the list of nodes ({error})")
        return  # kept here, or `grass delete` would treat them as nodes that joined by themselves
    for name in cleaned:
        remember(session.name, session.client_dir, name, None)


def _wait_until_gone(client: Client, name: str) -> None:
    until, mark = clock.steady() + _GONE_SECONDS, None
    while (left := until - clock.steady()) > 0:
        answer = client.watch_node(name, mark, left)
        if answer.node is None:
            return
        mark = answer.mark
    raise UnreachableError(f"the master-agent has not removed {name} after {_GONE_SECONDS:g} s")


def _clean(session: Session, role: str, settings: HostSettings, packages: bool) -> None:
    name, progress = session.name, session.progress
    with open_host(settings, session.client_dir, session.ask) as host:
        host.become_root()
        facts = gather(host, name)
        if (f"{name}+{role}" if role else name) not in facts.records:
            progress(f"{host.name}: nothing of cluster {name} is there")
        elif role:
            clean(host, facts, node_paths.of_root(name, facts.config), progress, label=host.name, packages=packages)
        else:
            namespace_nodes.remove_all(host, facts, name, progress)
            records = gather(host, name).records
            run_steps(host, removal_steps(name, records, packages=packages), progress, host.name)


def _text(name: str, left: dict[str, str], done: str) -> str:
    lines = [f"  {host}: {why.removeprefix(f'{host}: ')}" for host, why in left.items()]
    return "\n".join(
        [
            f"cluster {name} still exists, because not every host can be cleaned; {done}",
            *lines,
            "try again when they answer, or use `grass delete --force` to skip them and leave them as they are",
        ]
    )
