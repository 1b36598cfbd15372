"""What forbids a move of the master. Changes nothing. Used by ``moving``."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from grass.api.client import Client
from grass.config import ClusterConfig
from grass.errors import ConflictError, GrassError, InputError
from grass.manifest.on_premises import HostSettings
from grass.model.lifecycle import NodeState
from grass.provision.on_premises import namespace_steps, node_steps
from grass.provision.on_premises.facts import Facts
from grass.provision.on_premises.handover import Handed
from grass.provision.on_premises.machines import Machines, open_host
from grass.provision.on_premises.old_master import Found
from grass.provision.provisioner import Session

if TYPE_CHECKING:
    from grass.wire.node_views import NodeView

_AT_ONCE = 8
_AWAY = (NodeState.SILENT, NodeState.LOST, NodeState.STOPPED, NodeState.JOINING)


def check_target(host: str, name: str, facts: Facts, found: Found, key: str, handed: Handed) -> None:
    """Raises InputError and ConflictError: the machine cannot become the master. ``key``: of the cluster's master."""
    if f"{name}+{node_steps.ROLE}" in facts.records:
        node = facts.records[f"{name}+{node_steps.ROLE}"].details.get("name") or facts.hostname
        raise InputError(
            f"{host}: is a node of cluster {name}; run `grass node drain {node}` and `grass node remove {node}` first, "
            f"and `grass node add {host} --name {node}` after the move"
        )
    if found.key not in ("", key):
        raise ConflictError(f"{host}: is the master of another cluster {name}; `grass delete` it, or take another")
    if handed.new:
        return  # it may have started already
    if found.lives:
        raise ConflictError(f"{host}: is the master of cluster {name} already")
    if found.state and not found.replaced_by and not found.interrupted:
        raise ConflictError(
            f"{host}: has a state of cluster {name} that nobody moved away; `grass delete` it there first"
        )


def check_cluster(
    session: Session, machines: Machines, before: ClusterConfig, facts: Facts, *, nodes_later: bool
) -> None:
    """Raises ConflictError: something of the cluster would not survive the move, or nodes are away."""
    name = session.name
    there = namespace_steps.known(facts, name)
    if partly := [each for each in machines.namespaces if each not in there or not there[each].node_token]:
        raise ConflictError(
            f"cluster {name}: namespaces are half added: {', '.join(partly)}; repeat `grass node add --kubernetes`, "
            "or `grass node remove` them"
        )
    with Client(name, home=session.home) as client:
        views = client.nodes()
    if f"{name}+{node_steps.ROLE}" in facts.records and before.samba is not None:
        own = {view.name for view in views if view.address == before.address and view.tasks}
        if own:
            raise ConflictError(
                f"{', '.join(sorted(own))}: is on the machine of the master, whose tasks have files of the share open "
                "there; `grass node drain` it first"
            )
    away = _away(session, machines, views)
    if not away:
        return
    lines = "\n".join(f"  {node}: {why.removeprefix(f'{node}: ')}" for node, why in sorted(away.items()))
    advice = "they follow by themselves while the old machine runs, or by `grass node add` or `grass node follow`"
    if not nodes_later:
        raise ConflictError(
            f"cluster {name}: nodes could not be told of the new master; nothing was changed\n{lines}\n"
            f"  wait for them, or use --nodes-later: {advice}"
        )
    session.progress(f"cluster {name}: some nodes are not told of the new master; {advice}\n{lines}")


def _away(session: Session, machines: Machines, views: Sequence[NodeView]) -> dict[str, str]:
    """Return the nodes that cannot be told of a new master now, and why. Namespaces go with the master."""
    views = [view for view in views if view.name not in machines.namespaces]
    away = {view.name: f"is {view.state.value}" for view in views if view.state in _AWAY}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        known = machines.nodes
        looks = zip(known, pool.map(lambda each: _why_not_reached(session, each), known.values()), strict=True)
        away |= {node: why for node, why in looks if why}
    away |= {
        view.name: "joined by itself, or was added from another machine"
        for view in views
        if view.name not in machines.nodes and view.state != NodeState.LEFT
    }
    return away


def _why_not_reached(session: Session, node: HostSettings) -> str:
    try:
        with open_host(node, session.client_dir, session.ask) as host:
            host.connect()
            host.become_root()
    except GrassError as error:
        return str(error)
    return ""
