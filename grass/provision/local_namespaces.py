"""Nodes of a cluster on one machine that are namespaces of Kubernetes. Used by ``local``.

Each has a folder, ``nodes/NAME`` in the cluster's, with a ``cluster.json`` and secrets of its own, and two daemons
under the cluster's supervisord: an agent, which works as one node-agent of the cluster more, and its API. Kubeconfigs
stay where they are: the agent reads what the user's own `kubectl` reads.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from grass.api.invitation import parse_token
from grass.api.join_client import open_join_client
from grass.config import ClusterConfig, Secrets
from grass.errors import ConflictError, GrassError
from grass.kubernetes.trial import check_rights, check_version, server_of
from grass.model.daemons import OPERATOR, Daemon
from grass.node_config import NodeConfig, NodeHome
from grass.provision import ports, runtime_folder
from grass.provision.namespaces import (
    DAEMONS,
    NamespaceRequest,
    daemons_of,
    join_request,
    look,
    node_config,
    of_cluster,
    pods_stay,
)
from grass.supervision import processes
from grass.supervision.supervisor import Supervisor
from grass.system import own_program
from grass.system.entropy import password
from grass.wire.codec import builtins

if TYPE_CHECKING:
    from grass.api.client import Client

_END_SECONDS = 15.0


def folder_of(config: ClusterConfig, name: str) -> Path:
    return Path(config.home) / "nodes" / name


def nodes(config: ClusterConfig) -> Iterator[NodeHome]:
    """Yield the configurations of the cluster's namespaces, in the order of their names."""
    yield from map(NodeHome.load, sorted((Path(config.home) / "nodes").glob("*/cluster.json")))


def program_name(daemon: Daemon, node: str) -> str:
    """Return the name of a namespace's daemon in supervisord."""
    return f"{daemon.name}@{node}"


def program_names(config: ClusterConfig) -> list[str]:
    """Return the names of the daemons of all namespaces."""
    return [
        program_name(daemon, node.node.name) for node in nodes(config) for daemon in daemons_of(node.node.kubernetes)
    ]


def command(daemon: Daemon, node: NodeHome) -> tuple[str, ...]:
    return tuple(own_program.command(daemon.module, str(node.path)))


def make(config: ClusterConfig, request: NamespaceRequest, client: Client) -> None:
    """Register the node, and write the files of its daemons. May be repeated. Raises what ``look`` raises, and
    ConflictError: a node has this name."""
    folder = folder_of(config, request.name)
    request = look(request)
    others = list(nodes(config))
    settings = of_cluster(request.settings, (each.node.kubernetes for each in others))
    port = ports.free("127.0.0.1", Path(config.home), {each.node.api_port for each in others})
    node = node_config(request, settings, address=NodeConfig.address, api_port=port)
    runtime_dir = Path(config.runtime_dir) / f"n{node.api_port}"  # short: paths of sockets have a limit
    master = replace(config.master, nodes_on_client=False)
    cluster = replace(config, home=str(folder), runtime_dir=str(runtime_dir), share=str(config.data_dir), master=master)
    own = NodeHome.of(cluster, node)
    for each in (folder, folder / "log", folder / "node" / "attempts"):
        each.mkdir(mode=0o700, parents=True, exist_ok=True)
    secret = _password(folder)
    Secrets({"node": secret}, _join(own, secret, client)).save(folder)
    own.save()


def change_serving(config: ClusterConfig, node: NodeHome, request: NamespaceRequest) -> None:
    """Have the resources of a namespace served, or not, as the settings of the request say. End its operator, which has
    to read them.

    Raises NotAllowedError: rights are missing; ConflictError: the node is another namespace.
    """
    settings = node.namespace
    if settings.namespace != request.settings.namespace:
        raise ConflictError(f"node {request.name}: is the namespace {settings.namespace}; remove it first")
    changed = replace(settings, serve=request.settings.serve)
    if changed.serve is not None:
        with closing(server_of(changed)) as server:
            check_rights(server, changed)
    replace(node, node=replace(node.node, kubernetes=changed)).save()
    _end_programs(config, {program_name(OPERATOR, request.name)})


def _password(folder: Path) -> str:
    """Return the node's password. It is kept before the node joins: who is interrupted then comes again with it."""
    with suppress(FileNotFoundError):
        return Secrets.load(folder).redis["node"]
    secret = password()
    Secrets({"node": secret}, "").save(folder)
    return secret


def make_runtime_folder(config: ClusterConfig, node: NodeHome) -> None:
    """Make the folder of a namespace's sockets, in which the cluster's collector is found, too."""
    folder = Path(node.runtime_dir)
    runtime_folder.make(folder)
    link = node.socket("collector")
    if not link.is_symlink():
        link.symlink_to(config.socket("collector"))


def _join(own: NodeHome, secret: str, client: Client) -> str:
    """Let the cluster make the node, as if a machine joined. Return the token of its API.

    The id of the join follows from the node's password, so that who is interrupted comes again as the same one.
    """
    invitation = parse_token(client.join_token(own.node.name).token)
    join_id = hashlib.sha256(secret.encode()).hexdigest()[:32]
    body = join_request(own.node, invitation.secret, secret, join_id)
    joining = open_join_client(invitation)
    try:
        joined = joining.join(builtins(body))
    finally:
        joining.close()
    assert joined.secrets, "the reply to a join has them"
    return joined.secrets.node_token


def end_daemons(config: ClusterConfig, name: str) -> None:
    """End the daemons of a namespace. An agent that lived on would make what is being removed anew."""
    _end_programs(config, {program_name(daemon, name) for daemon in (*DAEMONS, OPERATOR)})


def _end_programs(config: ClusterConfig, own: set[str]) -> None:
    supervisor = Supervisor(config)
    pids = [state.pid for state in supervisor.daemons() if state.name in own and state.pid is not None]
    for each in own:
        supervisor.stop_daemon(each)
    processes.wait_gone(pids, _END_SECONDS)
    for each in own:  # one that had just ended is started once more
        supervisor.end_daemon(each, _END_SECONDS)


def check_reachable(node: NodeHome) -> None:
    """Check that pods of a namespace can be removed now. Raises UnreachableError."""
    settings = node.namespace
    try:
        with closing(server_of(settings)) as server:
            check_version(server)
    except GrassError as error:
        raise pods_stay(settings.namespace, error) from error
