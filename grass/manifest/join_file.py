"""Reads the file of `grass join FILE`, MARO's or Grass's own: the master, and the resources that this machine offers.

``docs/guide/joining.md`` explains every key. Used by ``grass.cli``, ``grass.provision`` and
``grass.provision.on_premises``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from grass.manifest import quantities, values
from grass.manifest.bounds import check_bounds
from grass.manifest.containers import read_runtimes
from grass.manifest.fields import Fields, Problems
from grass.manifest.on_premises import (
    API_PORT,
    NODE_API_PORT,
    address,
    login_name,
    port_number,
    read_api_port,
    read_install,
    read_share,
)
from grass.manifest.placement import read_labels, read_topology
from grass.manifest.values import Wrong, show
from grass.model.mode import ON_PREMISES
from grass.model.runtime import OF_MACHINES, RuntimeName
from grass.network_address import network_address


@dataclass(frozen=True)
class Offer:
    """The resources that a machine offers as a node. None: detected on the machine, or everything that the machine has.

    ``address``: what the other machines of the cluster use. ``runtimes`` empty: processes, and containers if there is
    an engine. ``mounts``: folders of the host that containers may mount. ``share``: where the share is already mounted;
    None: Grass mounts the master's share.
    """

    name: str | None = None
    address: str | None = None
    api_port: int = NODE_API_PORT
    cpu: int | None = None
    memory: int | None = None
    gpu: int | None = None
    labels: dict[str, str] = field(default_factory=dict)
    topology: tuple[str, ...] = ()
    runtimes: tuple[RuntimeName, ...] = ()
    mounts: tuple[str, ...] = ()
    share: str | None = None
    install: bool = True
    """Whether Grass may install missing system packages."""
    gpu_of_size: bool = False
    """``gpu`` is what the machine's size has: if it sees fewer, it joins, and its probe finds the fault."""


@dataclass(frozen=True)
class JoinFile:
    """A join file. ``url``: of the master's API. ``token`` None: from an option, or made with an admin's key."""

    url: str
    offer: Offer
    token: str | None = field(default=None, repr=False)


def parse_join(document: Any, source: str = "") -> JoinFile:
    """Parse a join file. Raise ManifestError with every problem and its path."""
    problems = Problems(source)
    check_bounds(document, problems)
    fields = Fields(document, "", problems)
    problems.check()
    fields.require("mode", _mode, ON_PREMISES)
    url = _master(fields)
    token = fields.read("token", values.text, None)
    offer = _offer(fields)
    fields.done()
    problems.check()
    return JoinFile(url, offer, token)


def _mode(value: Any) -> str:
    if value != ON_PREMISES:
        raise Wrong(f"must be {ON_PREMISES}, got {show(value)}")
    return ON_PREMISES


def _master(fields: Fields) -> str:
    master = fields.section("master")
    if master is None:
        fields.require("master", values.text, "", "is missing; it is the address of the cluster's master")
        return ""
    key = "private_ip_address" if master.has("private_ip_address") else "address"
    where = master.require(key, address, "", "is missing; it is the address of the cluster's master")
    port = read_api_port(master, API_PORT)
    for ignored in ("redis", "hostname", "username", "public_ip_address", "fluentd", "samba", "ssh"):
        master.has(ignored)  # MARO writes these keys; the master sends the node the values
    master.done()
    return f"http://{network_address(where, port)}"


def _offer(fields: Fields) -> Offer:
    said = read_install(fields)
    node = fields.section("node")
    offer = Offer() if node is None else _node(node)
    if said and not offer.runtimes:  # in MARO's files this key means containers
        offer = replace(offer, runtimes=tuple(map(RuntimeName, OF_MACHINES)))
    return replace(offer, install=said is not False)


def _node(node: Fields) -> Offer:
    own = node.read("address", address, None)
    offer = Offer(
        name=node.read("name", values.name, None) or node.read("hostname", values.name, None),
        address=node.read("private_ip_address", address, None) or own,
        labels=read_labels(node),
        topology=read_topology(node),
        api_port=read_api_port(node, NODE_API_PORT),
        runtimes=read_runtimes(node),
        mounts=tuple(node.parsed(path, values.absolute_path, item, "/") for path, item in node.items("mounts")),
        share=read_share(node, "this machine"),
    )
    offer = _limits(offer, node)
    node.read("username", login_name, None)  # of MARO's files: for SSH from the master to the node
    node.read("public_ip_address", address, None)
    with node.within("ssh") as ssh:
        ssh.read("port", port_number, 22)
        ssh.has("public_key")
    node.done()
    return offer


def _limits(offer: Offer, node: Fields) -> Offer:
    with node.within("resources") as section:
        return replace(
            offer,
            cpu=section.read("cpu", quantities.all_or(quantities.cpu), None),
            memory=section.read("memory", quantities.all_or(quantities.maro_memory), None),
            gpu=section.read("gpu", quantities.all_or(quantities.gpu), None),
        )
