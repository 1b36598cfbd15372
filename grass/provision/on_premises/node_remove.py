"""`grass node remove`: remove a node from the cluster, then clean its machine over SSH. Called by ``provisioner``."""

from __future__ import annotations

from collections.abc import Callable

from grass.hosts import AccessRefusedError, HostUnreachableError
from grass.hosts.ssh import SshHost
from grass.provision.on_premises import leaving, node_paths
from grass.provision.on_premises.facts import gather
from grass.provision.on_premises.machines import load_machines, open_host
from grass.provision.on_premises.node_add import remember
from grass.provision.provisioner import Session


def remove_node(session: Session, name: str, take_out: Callable[[], None], *, force: bool, packages: bool) -> None:
    """Remove a node. ``take_out`` removes it from the cluster, and is called only after its machine was reached."""
    host = _reach(session, name, force)
    take_out()
    if host is not None:
        with host:
            facts = gather(host, session.name)
            paths = node_paths.of_root(session.name, facts.config)
            leaving.clean(host, facts, paths, session.progress, name, packages=packages)
    remember(session.name, session.client_dir, name, None)


def _reach(session: Session, name: str, force: bool) -> SshHost | None:
    """Connect to the machine. None: no login is known, or with ``force`` the machine does not answer."""
    machines = load_machines(session.name, session.home)
    settings = machines.nodes.get(name) if machines else None
    if settings is None:
        session.progress(f"{name} joined by itself: run `grass leave --force` on its machine to clean it")
        return None
    host = open_host(settings, session.client_dir, session.ask)
    try:
        host.connect()
        host.become_root()
    except (HostUnreachableError, AccessRefusedError) as error:
        if not force:
            why = str(error).removeprefix(f"{host.name}: ")
            raise type(error)(
                "nothing was changed, because its machine cannot be cleaned, but --force removes the node anyway: "
                f"{why}"
            ) from error
        session.progress(f"warning: {name}: its machine is not cleaned ({error}); run `grass leave` there")
        return None
    return host
