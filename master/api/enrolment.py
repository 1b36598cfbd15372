"""Turns what a joining machine reports into the files that make it a node. Pure. Called by ``joins``."""

from __future__ import annotations

import ipaddress
from dataclasses import asdict

from grass.api.invitation import secret_digest
from grass.api.node_token import node_token
from grass.config import ClusterConfig, Secrets
from grass.errors import InputError
from grass.model.machine_labels import TOPOLOGY
from grass.model.names import MAX_TOPOLOGY_LEVELS, NAME_RULE, is_label_name, is_topology_path, topology_path
from grass.model.runtime import RUNTIMES
from grass.network_address import host_and_port
from grass.node_config import NodeConfig
from grass.store.embedded import TASKS_USER
from grass.wire.calls import Join, JoinQuestion, OfferedNode
from grass.wire.join_views import JoinedView, NodeSecrets, ShareServer
from grass.wire.tickets import NodeOffer

JoinRequest = Join | JoinQuestion
"""A machine that joins, or asks whether it could."""


def node_offer(request: JoinRequest) -> NodeOffer:
    """Return what the ticket says about the node."""
    node = request.node
    return NodeOffer(request.facts.address, node.labels, node.path, node.runtimes)


def check_offer(offer: OfferedNode) -> None:
    """Check what its type cannot say. Raises InputError that names the field."""
    for name, value in offer.labels.items():
        if not is_label_name(name):
            raise InputError(f"node.labels: {name!r} is not the name of a label")
        if name == TOPOLOGY and topology_path(value) is None:
            rule = f"at most {MAX_TOPOLOGY_LEVELS} names with / between ({NAME_RULE})"
            raise InputError(f"node.labels.{name}: must be {rule}, got {value!r}")
    if not is_topology_path(offer.path):
        raise InputError(f"node.path: must be a list of at most {MAX_TOPOLOGY_LEVELS} names ({NAME_RULE})")
    unknown = sorted(set(offer.runtimes) - set(RUNTIMES))
    if unknown:
        raise InputError(f"node.runtimes: unknown runtime {unknown[0]!r}; use {' or '.join(RUNTIMES)}")


def check_address(config: ClusterConfig, request: JoinRequest) -> None:
    """Raise InputError unless the address is one at which other machines may reach the node."""
    try:
        address = ipaddress.ip_address(request.facts.address)
    except ValueError:
        raise InputError(f"facts.address: must be an IP address, got {request.facts.address!r}") from None
    own = config.master.api_host
    if config.redis.socket is not None:
        return  # all daemons run on the master's machine, also if its API listens on all addresses
    if address.is_loopback and own not in ("127.0.0.1", "::1", "localhost"):
        raise InputError(
            f"node {request.name}: address {address} is reachable only from the machine itself; "
            "give one that other machines can reach with --address"
        )


def reach(config: ClusterConfig, request: JoinRequest) -> list[tuple[str, str, int]]:
    """Return what a node must be able to connect to: ``(what, host, port)``."""
    found = []
    if config.redis.host and config.redis.port:
        found.append(("redis", config.redis.host, config.redis.port))
    if config.collector:
        found.append(("log collector", *host_and_port(config.collector)))
    if config.samba is not None and request.node.share is None:
        found.append(("share (samba)", config.samba.host, config.samba.port))
    return found


def node_files(config: ClusterConfig, secrets: Secrets, request: JoinRequest, now: float, bundle: str) -> JoinedView:
    """Return the reply to a join: all that the node needs. Of the secrets it has only the node's own.

    ``config`` has no folders, because the machine chooses its own. ``share``: what to mount, or null.
    """
    offer, policy = request.node, config.master.node_policy
    node = NodeConfig(
        name=request.name,
        address=request.facts.address,
        api_port=request.facts.api_port,
        cpu=offer.cpu,
        memory=offer.memory,
        gpu=offer.gpu,
        labels=offer.labels,
        path=offer.path,
        runtimes=offer.runtimes,
        mounts=offer.mounts,
        probe=True,
        isolate=policy.isolate,
        containers=policy.containers,
        read_only_data=policy.read_only_data,
        reserve=policy.reserve,
        low_disk=policy.low_disk,
        topology_command=policy.topology_command,
    )
    wire = {
        "name": config.name,
        "mode": config.mode,
        "redis": {"embedded": False, "host": config.redis.host, "port": config.redis.port},
        "master": asdict(config.master) | {"quotas": {}, "default_quota": {}, "node_policy": {}},
        "node": asdict(node),
        "collector": config.collector,
        "collector_asks": config.collector_asks,
        "task_redis": config.task_redis,
        "task_redis_server": config.task_redis_server,
    }
    token = node_token(secrets.node_token, request.name, secret_digest(request.password))
    passwords = {"node": request.password}
    if config.task_redis_server is not None:
        passwords[TASKS_USER] = secrets.redis[TASKS_USER]
    own = NodeSecrets(passwords, token)
    samba = config.samba if offer.share is None else None
    share = None if samba is None else ShareServer(**asdict(samba), password=secrets.samba)
    return JoinedView(cluster=config.name, time=now, bundle=bundle, config=wire, secrets=own, share=share)
