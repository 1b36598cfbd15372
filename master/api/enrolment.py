"""From what a joining machine reports about itself to the files that make it a node. Pure. Called by ``joins``."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import asdict, dataclass, field
from typing import Any

from grass.api.node_token import node_token
from grass.config import ClusterConfig, Secrets
from grass.errors import InputError
from grass.model.names import MAX_TOPOLOGY_LEVELS, NAME_RULE, is_label_name, is_topology_path
from grass.model.resources import Resources
from grass.network_address import WILDCARDS, host_and_port
from grass.wire.tickets import NodeOffer
from grass.wire.views import JoinedView

_JOIN_ID = re.compile(r"[0-9a-f]{16,64}")
RUNTIMES = ("process", "docker")


@dataclass(frozen=True)
class JoinRequest:
    """A machine that asks to join. ``password``: of its redis user; only the machine keeps it."""

    secret: str = field(repr=False)
    join_id: str
    password: str = field(repr=False)
    name: str
    check: bool
    address: str
    api_port: int
    version: str
    facts: dict[str, Any]
    """As sent; what is used of it was checked by ``parse``. The rest is for people (`grass node show`)."""
    offer: dict[str, Any]
    """As sent, checked by ``parse``: limits of cpu, memory, gpu; labels, path, runtimes, mounts. A missing limit means
    all that the machine has. It goes into the node's cluster.json, which is JSON of the same keys."""

    def node(self) -> NodeOffer:
        """Return what the ticket says about the node."""
        offer = self.offer
        return NodeOffer(
            self.address,
            offer.get("labels", {}),
            tuple(offer.get("path", ())),
            tuple(offer.get("runtimes", ("process",))),
        )


def parse(body: dict[str, Any]) -> JoinRequest:
    """Check what a machine sent, which is foreign JSON. Raises InputError that names the key."""
    facts, offer = _object(body, "facts"), _object(body, "node")
    join_id = _text(body, "join_id")
    if not _JOIN_ID.fullmatch(join_id):
        raise InputError("join_id: must be 16 to 64 hexadecimal digits")
    api_port = facts.get("api_port")
    if type(api_port) is not int or not 0 < api_port < 65536:
        raise InputError(f"facts.api_port: must be a port, got {api_port!r}")
    _check_offer(offer)
    _check_resources(facts)
    return JoinRequest(
        secret=_text(body, "secret"),
        join_id=join_id,
        password=_text(body, "password"),
        name=_text(body, "name"),
        check=body.get("check") is True,
        address=_text(facts, "address"),
        api_port=api_port,
        version=_text(facts, "version"),
        facts=facts,
        offer=offer,
    )


def _check_offer(offer: dict[str, Any]) -> None:
    labels, path = offer.get("labels", {}), offer.get("path", [])
    if not isinstance(labels, dict) or not all(
        isinstance(value, str) and is_label_name(name) for name, value in labels.items()
    ):
        raise InputError("labels: must map names to text")
    if not isinstance(path, list) or not is_topology_path(path):
        raise InputError(f"path: must be a list of at most {MAX_TOPOLOGY_LEVELS} names ({NAME_RULE})")
    if not _texts(offer.get("runtimes", [])) or not _texts(offer.get("mounts", [])):
        raise InputError("runtimes and mounts: must be lists of text")
    unknown = sorted(set(offer.get("runtimes", [])) - set(RUNTIMES))
    if unknown:
        raise InputError(f"runtimes: unknown runtime {unknown[0]!r}; use {' or '.join(RUNTIMES)}")
    for name in ("cpu", "memory", "gpu"):
        value = offer.get(name)
        if value is not None and (type(value) is not int or value < 0):
            raise InputError(f"{name}: must be a whole number, got {value!r}")


def _check_resources(facts: dict[str, Any]) -> None:
    if facts.get("resources") is None:
        return  # its node-agent reports them later
    try:
        Resources.from_wire(facts["resources"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"facts.resources: not resources ({error})") from error


def check_address(config: ClusterConfig, request: JoinRequest) -> None:
    """Raise InputError unless the address is one at which other machines may reach the node."""
    try:
        address = ipaddress.ip_address(request.address)
    except ValueError:
        raise InputError(f"facts.address: must be an IP address, got {request.address!r}") from None
    own = config.master.api_host
    if address.is_loopback and own not in ("127.0.0.1", "::1", "localhost"):
        raise InputError(
            f"node {request.name}: address {address} is reachable only from the machine itself; "
            "give one that other machines can reach with --address"
        )


def api_urls(config: ClusterConfig) -> tuple[str, ...]:
    """Return the URLs at which machines of the cluster's network reach the API."""
    return (f"http://{_spelled(_master_address(config))}:{config.master.api_port}",)


def reach(config: ClusterConfig, request: JoinRequest) -> list[tuple[str, str, int]]:
    """Return what a node must be able to connect to: ``(what, host, port)``."""
    found = []
    if config.redis.host and config.redis.port:
        found.append(("redis", config.redis.host, config.redis.port))
    if config.collector:
        found.append(("log collector", *host_and_port(config.collector)))
    if config.samba is not None and request.offer.get("share") is None:
        found.append(("share (samba)", config.samba.host, config.samba.port))
    return found


def node_files(config: ClusterConfig, secrets: Secrets, request: JoinRequest, now: float, bundle: str) -> JoinedView:
    """Return the reply to a join: all that the node needs. Of the secrets it has only the node's own.

    ``config`` has no folders, because the machine chooses its own. ``share``: what to mount, or null.
    """
    offer = request.offer
    node = {
        "name": request.name,
        "address": request.address,
        "api_port": request.api_port,
        "labels": offer.get("labels", {}),
        "path": offer.get("path", []),
        "runtimes": offer.get("runtimes", ["process"]),
        "mounts": offer.get("mounts", []),
        "probe": True,
        "reserve": config.node.reserve,
        "low_disk": config.node.low_disk,
        **{name: offer.get(name) for name in ("cpu", "memory", "gpu")},
    }
    wire = {
        "name": config.name,
        "mode": config.mode,
        "redis": {"embedded": False, "host": config.redis.host, "port": config.redis.port},
        "master": asdict(config.master) | {"quotas": {}, "default_quota": {}},
        "node": node,
        "collector": config.collector,
        "collector_asks": config.collector_asks,
    }
    own = {"redis": {"node": request.password}, "node_token": node_token(secrets.node_token, request.name)}
    samba = config.samba if offer.get("share") is None else None
    share = None if samba is None else {**asdict(samba), "password": secrets.samba}
    return JoinedView(cluster=config.name, time=now, bundle=bundle, config=wire, secrets=own, share=share)


def _master_address(config: ClusterConfig) -> str:
    """Return the master's address in the cluster's network. The API may listen on all addresses; redis is bound to
    this one."""
    host = config.master.api_host
    return (config.redis.host or "127.0.0.1") if host in WILDCARDS else host


def _spelled(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _object(body: dict[str, Any], key: str) -> dict[str, Any]:
    value = body.get(key, {})
    if not isinstance(value, dict):
        raise InputError(f"{key}: must be an object")
    return value


def _text(body: dict[str, Any], key: str) -> str:
    value = body.get(key)
    if not isinstance(value, str) or not value:
        raise InputError(f"{key}: must be non-empty text")
    return value


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)
