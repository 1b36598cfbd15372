"""`grass node remove`: the cluster lets a node go, and its machine is cleaned over SSH. Called by ``provisioner``."""

from __future__ import annotations

from collections.abc import Callable

from grass.hosts import AccessRefusedError, HostUnreachableError
from grass.hosts.ssh import SshHost
from grass.provision.on_premises import leaving, node_places
from grass.provision.on_premises.facts import gather
from grass.provision.on_premises.machines import load_machines, open_host
from grass.provision.on_premises.node_add import remember
from grass.provision.provisioner import Session


def remove_node(session: Session, name: str, take_out: Callable[[], None], *, force: bool, packages: bool) -> None:
    """``take_out``: make the cluster let the node go. It is called once its machine was reached, and not before."""
    host = _reach(session, name, force)
    take_out()
    if host is not None:
        with host:
            facts = gather(host, session.name)
            places = node_places.of_root(session.name, facts.config)
            leaving.clean(host, facts, places, session.progress, name, packages=packages)
    remember(session.name, session.client_dir, name, None)


def _reach(session: Session, name: str, force: bool) -> SshHost | None:
    """None: nobody here knows how, or with ``force`` the machine does not answer."""
    machines = load_machines(session.name, session.home)
    settings = machines.nodes.get(name) if machines else None
    if settings is None:
        session.progress(f"{name} joined by itself: `grass leave --force` on it removes what that made there")
        return None
    host = open_host(settings, session.client_dir, session.ask)
    try:
        host.connect()
        host.become_root()
    except (HostUnreachableError, AccessRefusedError) as error:
        if not force:
            raise type(error)(
                f"nothing was changed, because its machine cannot be cleaned: {error}. --force takes it out of the "
                "cluster all the same"
            ) from error
        session.progress(
            f"warning: {name}: its machine keeps what joining made ({error}); `grass leave` there removes it"
        )
        return None
    return host
