"""`grass delete` of a cluster on several hosts: the nodes leave, then the master, then what this machine knows of it.

A host that does not answer stops it before anything is lost that is needed to reach the others; ``force`` goes on
without such hosts, and says which ones keep what was made there.
"""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor

from grass.errors import GrassError, UnreachableError
from grass.manifest.on_premises import HostSettings
from grass.provision.filelock import cluster_lock
from grass.provision.on_premises import node_places
from grass.provision.on_premises.facts import gather
from grass.provision.on_premises.leaving import clean
from grass.provision.on_premises.machines import Machines, load_machines, open_host
from grass.provision.on_premises.removal import removal_steps
from grass.provision.on_premises.steps import run_steps
from grass.provision.provisioner import Deleted, Session

AT_ONCE = 5


class StayedError(UnreachableError):
    """Some hosts could not be cleaned; the cluster is still there."""

    code = "hosts-stayed"


def delete(session: Session, *, force: bool, packages: bool) -> Deleted:
    """StayedError: a host could not be cleaned, and ``force`` was not given. What was done stays done; try again."""
    with cluster_lock(session.home, session.name):
        machines = load_machines(session.name, session.home)
        # without machines an interrupted call has done all but remove the folder
        left = _delete_hosts(session, machines, force, packages) if machines is not None else {}
        shutil.rmtree(session.folder)
    return Deleted(session.name, left)


def _delete_hosts(session: Session, machines: Machines, force: bool, packages: bool) -> dict[str, str]:
    left = {**_strangers(session, machines), **_leave(session, machines, packages)}
    if left and not force:
        raise StayedError(_text(session.name, left))
    try:
        _clean(session, "", machines.master, packages)
    except GrassError as error:
        if not force:
            raise
        left[machines.master.name or machines.master.address] = str(error)
    return left


def _strangers(session: Session, machines: Machines) -> dict[str, str]:
    """Nodes that joined by themselves: from here there is no way into them. Nothing is known without the API."""
    from grass.api.client import Client

    try:
        client = Client(session.name, home=session.home)
        try:
            nodes = client.nodes()
        finally:
            client.close()
    except (GrassError, OSError, ValueError):
        return {}
    ours = {address for host in machines.nodes.values() for address in (host.address, host.private_address)}
    return {
        node["name"]: "it joined by itself: run `grass leave` on that machine"
        for node in nodes
        if node["name"] not in machines.nodes and node["address"] not in ours and node["state"] != "LEFT"
    }


def _leave(session: Session, machines: Machines, packages: bool) -> dict[str, str]:
    """Several at once. Returns those that could not."""

    def one(item: tuple[str, HostSettings]) -> tuple[str, str]:
        try:
            _clean(session, "node", item[1], packages)
        except GrassError as error:
            return item[0], str(error)
        return item[0], ""

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return {node: why for node, why in pool.map(one, machines.nodes.items()) if why}


def _clean(session: Session, role: str, settings: HostSettings, packages: bool) -> None:
    name, progress = session.name, session.progress
    with open_host(settings, session.client_dir, session.ask) as host:
        host.become_root()
        facts = gather(host, name)
        if (f"{name}+{role}" if role else name) not in facts.records:
            progress(f"{host.name}: nothing of cluster {name} is there")
        elif role:
            clean(host, facts, node_places.of_root(name, facts.config), progress, label=host.name, packages=packages)
        else:
            run_steps(host, removal_steps(name, facts.records, packages=packages), progress, host.name)


def _text(name: str, left: dict[str, str]) -> str:
    lines = [f"  {host}: {why}" for host, why in left.items()]
    return "\n".join(
        [
            f"cluster {name} still exists: not every host could be cleaned",
            *lines,
            "try again when they answer, or `grass delete --force` goes on without them and leaves them as they are",
        ]
    )
