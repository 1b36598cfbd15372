"""What a cluster consists of on Azure: names, paths, pinned API versions and request bodies. Pure.

Every name is fixed, so a repeated request finds what an interrupted one made. What Grass makes carries the tag
``grass-id``, or has this id in its name, where Azure makes it along with something else. Used by this package and
``grass.provision.azure``.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import json
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum

from grass.azure import machine_events
from grass.manifest.azure import AzureSettings, MachineSettings, Nat
from grass.manifest.azure_images import Start, has_gpus
from grass.manifest.document import Document
from grass.manifest.on_premises import ApiWay

ID_TAG, CLUSTER_TAG, BODY_TAG = "grass-id", "grass-cluster", "grass-body"
SIZE_TAG, FROM_TAG = "grass-size", "grass-from"
"""Of an image: the size of its machine, and what that started from."""

RESOURCES = "2025-04-01"
SUBSCRIPTIONS = "2022-12-01"
NETWORKING = "2025-09-01"
COMPUTE = "2026-04-01"
DISKS = "2026-03-02"
CONTAINERS = "2026-05-01"
REGISTRIES = "2025-11-01"
ROLES = "2022-04-01"
SKUS = "2021-07-01"
LOCKS = "2020-05-01"
ASSIGNMENTS = "2022-06-01"
ROLES = "2022-04-01"
_INLINE_NETWORK = "2022-11-01"
"""Version of the network's types that the body of a machine uses for its card."""

ROLE = "Virtual Machine Contributor"
"""Azure's role that may make, start and stop machines with their cards and disks, and gives nobody a role."""

NAMESPACES = ("Microsoft.Compute", "Microsoft.Network")
_PORT_OF_SSH = 22
_MASTERS, _NODES = "machines", "nodes"
"""Names of the subnets."""

_CLOSED_METADATA = """\
table inet grass_metadata {
  chain output {
    type filter hook output priority 0; policy accept;
    ip daddr 169.254.169.254 meta skuid != 0 counter reject
    ip daddr 168.63.129.16 tcp dport { 80, 32526 } meta skuid != 0 counter reject
  }
  chain forward {
    type filter hook forward priority 0; policy accept;
    ip daddr { 169.254.169.254, 168.63.129.16 } counter reject
  }
}
"""
"""Any process of a machine may ask Azure's metadata service for tokens and user data; this leaves it to root."""

_EVENTS = "grass-machine-events.service"
_EVENTS_UNIT = f"""\
[Unit]
Description=Tell node-agents of Grass when Azure takes this machine back
After=network-online.target
Wants=network-online.target
[Service]
ExecStart=/usr/bin/python3 -I {machine_events.PATH}
Restart=always
RestartSec=2
[Install]
WantedBy=multi-user.target
"""

_ROUTER = """\
table ip grass_router {{
  chain postrouting {{
    type nat hook postrouting priority 100; policy accept;
    ip saddr {nodes} ip daddr != {network} masquerade
  }}
}}
"""
"""Nodes have no public address; the master is their way out, for packages and data."""


class Kind(Enum):
    """Kinds of resources, in the order in which they are made. Value: type, API version, usual seconds to make one."""

    GROUP = ("Microsoft.Resources/resourceGroups", RESOURCES, 5)
    RULES = ("Microsoft.Network/networkSecurityGroups", NETWORKING, 10)
    ROUTES = ("Microsoft.Network/routeTables", NETWORKING, 10)
    ADDRESS = ("Microsoft.Network/publicIPAddresses", NETWORKING, 10)
    NAT = ("Microsoft.Network/natGateways", NETWORKING, 10)
    NETWORK = ("Microsoft.Network/virtualNetworks", NETWORKING, 10)
    MACHINE = ("Microsoft.Compute/virtualMachines", COMPUTE, 180)
    CARD = ("Microsoft.Network/networkInterfaces", NETWORKING, 10)
    DISK = ("Microsoft.Compute/disks", DISKS, 10)
    IMAGE = ("Microsoft.Compute/images", COMPUTE, 300)
    REGISTRY = ("Microsoft.ContainerRegistry/registries", REGISTRIES, 20)
    KUBERNETES = ("Microsoft.ContainerService/managedClusters", CONTAINERS, 420)
    POOL = ("Microsoft.ContainerService/managedClusters/agentPools", CONTAINERS, 180)
    ROLE = ("Microsoft.Authorization/roleAssignments", ROLES, 5)

    @property
    def type(self) -> str:
        return str(self.value[0])

    @property
    def version(self) -> str:
        return str(self.value[1])

    @property
    def usual(self) -> int:
        return int(self.value[2])


WORDS = {
    Kind.GROUP: "resource group",
    Kind.RULES: "network security group",
    Kind.ROUTES: "route table",
    Kind.NAT: "NAT gateway",
    Kind.NETWORK: "network",
    Kind.ADDRESS: "public address",
    Kind.MACHINE: "machine",
    Kind.CARD: "network card",
    Kind.DISK: "disk",
    Kind.IMAGE: "image",
    Kind.REGISTRY: "registry",
    Kind.KUBERNETES: "Kubernetes",
    Kind.POOL: "pool",
    Kind.ROLE: "right to pull",
}

OF_TYPE = {kind.type.lower(): kind for kind in Kind}


@dataclass(frozen=True)
class Site:
    """Where a cluster is. ``id``: 16 hexadecimal digits that mark all that was made for it."""

    subscription: str
    group: str
    id: str

    @property
    def group_path(self) -> str:
        return f"/subscriptions/{self.subscription}/resourceGroups/{self.group}"

    def path(self, kind: Kind, name: str) -> str:
        return self.group_path if kind is Kind.GROUP else f"{self.group_path}/providers/{kind.type}/{name}"


@dataclass(frozen=True)
class Wanted:
    """A resource as it should be."""

    kind: Kind
    name: str
    path: str
    body: Document

    @property
    def label(self) -> str:
        return f"{WORDS[self.kind]} {self.name}"


def is_ours(resource: Document, id: str) -> bool:
    """Return whether Grass made a resource for the cluster with this id: by its tag, or by its name."""
    tags = resource.get("tags")
    marked = isinstance(tags, dict) and tags.get(ID_TAG) == id
    return marked or id in str(resource.get("name", ""))


def body_hash(body: Document) -> str:
    """Return what tells two bodies apart, without what may change, or depends on who makes it: tags, the identity, and
    all but the first of the keys that may log in."""
    bare = {key: value for key, value in body.items() if key not in ("tags", "identity")}
    with suppress(KeyError):
        if more := bare["properties"]["osProfile"]["linuxConfiguration"]["ssh"]["publicKeys"][1:]:
            bare = json.loads(json.dumps(bare))
            del bare["properties"]["osProfile"]["linuxConfiguration"]["ssh"]["publicKeys"][-len(more) :]
    return hashlib.sha256(json.dumps(bare, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Terms:
    """What all machines of a cluster have in common; ``machine``: as the master, whose size and zone others may
    differ in. ``key``: the public key that may log in. ``nat``: nodes leave through a NAT gateway, not the master.
    ``sizes``: as in the settings. ``identity``: the master has an identity, and autoscales. ``more_keys``: public keys
    that may log in to new nodes as well."""

    cluster: str
    location: str
    machine: MachineSettings
    network: str
    user: str
    key: str
    tags: dict[str, str]
    nat: bool = False
    sizes: dict[str, Start] = field(default_factory=dict)
    identity: bool = False
    more_keys: tuple[str, ...] = ()


def terms_of(settings: AzureSettings, key: str) -> Terms:
    cloud, user = settings.cloud, settings.master.login.username or ""
    return Terms(
        settings.name,
        cloud.location,
        settings.machine,
        settings.network,
        user,
        key,
        cloud.tags,
        settings.nat is Nat.GATEWAY,
        settings.sizes,
        settings.autoscale is not None and settings.autoscale.on_master,
    )


def wanted(settings: AzureSettings, site: Site, sources: tuple[str, ...], key: str) -> tuple[Wanted, ...]:
    """Return what a cluster with one master consists of, in the order in which it is made.

    ``sources``: addresses that SSH may come from. ``key``: the public key that may log in. The routes lead nowhere
    before there is a master.
    """
    name, terms = settings.name, terms_of(settings, key)
    ports = [_PORT_OF_SSH] + ([settings.api_port] if settings.api is ApiWay.DIRECT else [])
    paths = _paths(terms, site)
    rules = _rules(sources, ports, str(subnets(settings.network)[1]))
    return (
        _wanted(terms, site, Kind.GROUP, {}),
        _wanted(terms, site, Kind.RULES, rules),
        *(_gateway(terms, site, paths) if terms.nat else (routes(terms, site, ""),)),
        _wanted(terms, site, Kind.NETWORK, _network(settings.network, paths, nat=terms.nat)),
        machine(terms, site, names(name, "")[Kind.MACHINE], settings.machine, public=True),
    )


def routes(terms: Terms, site: Site, gateway: str) -> Wanted:
    """Return the routes of nodes. ``gateway``: private address of the master; empty: it is not known yet."""
    out = {"addressPrefix": "0.0.0.0/0", "nextHopType": "VirtualAppliance", "nextHopIpAddress": gateway}
    found = [{"name": "out", "properties": out}] if gateway else []
    return _wanted(terms, site, Kind.ROUTES, {"properties": {"routes": found}})


def _gateway(terms: Terms, site: Site, paths: dict[Kind, str]) -> tuple[Wanted, ...]:
    """Return the way out of nodes that Azure sells, with its address."""
    fixed: Document = {"sku": {"name": "Standard"}, "properties": {"publicIPAllocationMethod": "Static"}}
    uses: Document = {"publicIpAddresses": [{"id": paths[Kind.ADDRESS]}]}
    return (
        _wanted(terms, site, Kind.ADDRESS, fixed),
        _wanted(terms, site, Kind.NAT, {"sku": {"name": "Standard"}, "properties": uses}),
    )


def machine(terms: Terms, site: Site, name: str, like: MachineSettings, *, public: bool) -> Wanted:
    """Return a machine. ``public``: the master, which has a public address; nodes are reached through it, and never
    have an identity."""
    path = site.path(Kind.MACHINE, name)
    body = _machine(terms, site, name, like, public=public)
    if public and terms.identity:
        body |= identity(on=True)
    return Wanted(Kind.MACHINE, name, path, complete(body, terms.location, _tags(terms, site)))


def builder_name(cluster: str) -> str:
    """Return the name of the machine that becomes an image."""
    return f"{cluster}-image-builder"


def image(terms: Terms, site: Site, name: str, source: str, size: str, made_from: str) -> Wanted:
    """Return an image of a machine that is deallocated and generalized. ``made_from``: what that started from."""
    taken = {"sourceVirtualMachine": {"id": site.path(Kind.MACHINE, source)}, "hyperVGeneration": "V2"}
    tags = {**_tags(terms, site), SIZE_TAG: size, FROM_TAG: made_from}
    path = site.path(Kind.IMAGE, name)
    return Wanted(Kind.IMAGE, name, path, complete({"properties": taken}, terms.location, tags))


def images_of(site: Site) -> str:
    """Return where the images of the group are listed."""
    return f"{site.group_path}/providers/{Kind.IMAGE.type}"


def identity(*, on: bool) -> Document:
    """Return the part of a machine's body that gives it an identity, or takes that away."""
    return {"identity": {"type": "SystemAssigned" if on else "None"}}


def principal_of(machine: Document) -> str:
    """Return the id of a machine's identity; empty: it has none."""
    found = machine.get("identity")
    return str(found.get("principalId") or "") if isinstance(found, dict) else ""


def role_command(site: Site, principal: str) -> str:
    """Return the command with which an owner lets an identity make, start and stop machines of this group alone."""
    return (
        f"az role assignment create --assignee-object-id {principal} --assignee-principal-type ServicePrincipal "
        f"--role '{ROLE}' --scope {site.group_path}"
    )


def subnets(network: str) -> tuple[ipaddress.IPv4Network, ipaddress.IPv4Network]:
    """Return the addresses of the master and of nodes. The master's own way out must not lead through the master."""
    master, nodes = ipaddress.IPv4Network(network).subnets(1)
    return master, nodes


def names(cluster: str, group: str) -> dict[Kind, str]:
    return {
        Kind.GROUP: group,
        Kind.RULES: f"{cluster}-rules",
        Kind.ROUTES: f"{cluster}-routes",
        Kind.ADDRESS: f"{cluster}-nat-ip",
        Kind.NAT: f"{cluster}-nat",
        Kind.NETWORK: f"{cluster}-net",
        Kind.MACHINE: f"{cluster}-master",
    }


def is_of_machine(resource: str, machine: str, id: str) -> bool:
    """Return whether a card, address or disk was made along with a machine, by its name."""
    return any(resource.lower().startswith(f"{machine}-{part}-{id}".lower()) for part in ("card", "ip", "os"))


def _paths(terms: Terms, site: Site) -> dict[Kind, str]:
    return {kind: site.path(kind, name) for kind, name in names(terms.cluster, site.group).items()}


def _tags(terms: Terms, site: Site) -> dict[str, str]:
    return {**terms.tags, CLUSTER_TAG: terms.cluster, ID_TAG: site.id}


def _wanted(terms: Terms, site: Site, kind: Kind, body: Document) -> Wanted:
    name = names(terms.cluster, site.group)[kind]
    return Wanted(kind, name, site.path(kind, name), complete(body, terms.location, _tags(terms, site)))


def in_zone(machine: Wanted, zone: str) -> Wanted:
    """Return the machine as it would be in another zone."""
    body = {key: value for key, value in machine.body.items() if key not in ("tags", "location")}
    tags = {key: value for key, value in machine.body["tags"].items() if key != BODY_TAG}
    changed = complete({**body, "zones": [zone]}, machine.body["location"], tags)
    return Wanted(machine.kind, machine.name, machine.path, changed)


def complete(body: Document, location: str, tags: dict[str, str]) -> Document:
    whole: Document = {"location": location, **body}
    return {**whole, "tags": {**tags, BODY_TAG: body_hash(whole)}}


def _rules(sources: tuple[str, ...], ports: list[int], nodes: str) -> Document:
    let_in: Document = {"sourceAddressPrefixes": list(sources), "destinationPortRanges": [str(port) for port in ports]}
    out: Document = {"sourceAddressPrefix": nodes, "destinationPortRange": "*"}
    rules = [_rule("grass-in", 1000, "Tcp", let_in), _rule("grass-nodes-out", 1010, "*", out)]
    return {"properties": {"securityRules": rules}}


def _rule(name: str, priority: int, protocol: str, which: Document) -> Document:
    common = {"priority": priority, "direction": "Inbound", "access": "Allow", "protocol": protocol}
    return {"name": name, "properties": {**common, "sourcePortRange": "*", "destinationAddressPrefix": "*", **which}}


def _network(addresses: str, paths: dict[Kind, str], *, nat: bool) -> Document:
    of_master, of_nodes = subnets(addresses)
    common: Document = {
        "networkSecurityGroup": {"id": paths[Kind.RULES]},
        "defaultOutboundAccess": False,  # as Azure's newer versions have it, said so that it never depends on one
    }
    way: Document = {"natGateway": {"id": paths[Kind.NAT]}} if nat else {"routeTable": {"id": paths[Kind.ROUTES]}}
    routed = {**common, "addressPrefix": str(of_nodes), **way}
    parts = {_MASTERS: {**common, "addressPrefix": str(of_master)}, _NODES: routed}
    listed = [{"name": name, "properties": properties} for name, properties in parts.items()]
    return {"properties": {"addressSpace": {"addressPrefixes": [addresses]}, "subnets": listed}}


def _machine(terms: Terms, site: Site, name: str, like: MachineSettings, *, public: bool) -> Document:
    image: Document = {"id": site.path(Kind.IMAGE, like.image)}
    if like.image.count(":") == 3:
        image = dict(zip(("publisher", "offer", "sku", "version"), like.image.split(":"), strict=True))
    network = terms.network if public else None
    path, keys = f"/home/{terms.user}/.ssh/authorized_keys", [terms.key, *(() if public else terms.more_keys)]
    body: Document = {
        "properties": {
            "hardwareProfile": {"vmSize": like.size},
            "storageProfile": {
                "imageReference": image,
                "osDisk": {
                    "name": f"{name}-os-{site.id}",
                    "createOption": "FromImage",
                    "deleteOption": "Delete",
                    "diskSizeGB": like.disk,
                    "managedDisk": {"storageAccountType": "StandardSSD_LRS"},
                },
            },
            "osProfile": {
                "computerName": name,
                "adminUsername": terms.user,
                "customData": base64.b64encode(_first_boot(network, spot=like.spot).encode()).decode(),
                "linuxConfiguration": {
                    "disablePasswordAuthentication": True,
                    "ssh": {"publicKeys": [{"path": path, "keyData": key} for key in keys]},
                },
            },
            "networkProfile": {
                "networkApiVersion": _INLINE_NETWORK,
                "networkInterfaceConfigurations": [_card(terms, site, name, public=public)],
            },
            "diagnosticsProfile": {"bootDiagnostics": {"enabled": True}},
        }
    }
    if has_gpus(like.size):
        body["properties"]["securityProfile"] = {"securityType": "Standard"}  # secure boot refuses NVIDIA's driver
    if like.spot:
        price = -1 if like.max_price is None else like.max_price
        body["properties"] |= {"priority": "Spot", "evictionPolicy": "Delete", "billingProfile": {"maxPrice": price}}
    return {**body, "zones": [like.zone]} if like.zone else body


def _card(terms: Terms, site: Site, name: str, *, public: bool) -> Document:
    """Return the card of a machine, the master's with its public address. Azure makes both along with the machine,
    removes them with it, and gives their names a random ending."""
    subnet = f"{_paths(terms, site)[Kind.NETWORK]}/subnets/{_MASTERS if public else _NODES}"
    properties: Document = {"primary": True, "subnet": {"id": subnet}}
    if public:
        properties["publicIPAddressConfiguration"] = {
            "name": f"{name}-ip-{site.id}",
            "sku": {"name": "Standard"},
            "properties": {"deleteOption": "Delete", "publicIPAllocationMethod": "Static"},
            "tags": _tags(terms, site),
        }
    configurations = [{"name": "first", "properties": properties}]
    card: Document = {"primary": True, "deleteOption": "Delete", "ipConfigurations": configurations}
    if public:
        card["enableIPForwarding"] = True  # without it, Azure drops what the master forwards for nodes
    return {"name": f"{name}-card-{site.id}", "properties": card, "tags": _tags(terms, site)}


def _first_boot(network: str | None, *, spot: bool) -> str:
    """Return what cloud-init does at the first boot. Nothing in it is secret: it stays readable on the machine.

    ``network``: that for which the machine is the way out; None: it is for none. ``spot``: Azure may take it back.
    """
    files = {"/etc/grass-metadata.nft": _CLOSED_METADATA}
    if network is not None:
        files["/etc/grass-router.nft"] = _ROUTER.format(nodes=subnets(network)[1], network=network)
        # before docker starts: it closes forwarding to others only where it had to open it
        files["/etc/sysctl.d/60-grass-router.conf"] = "net.ipv4.ip_forward = 1\n"
    load = "".join(f"ExecStart=/usr/sbin/nft -f {path}\n" for path in files if path.endswith(".nft"))
    unit = (
        "[Unit]\nDescription=Leave the metadata service of Azure to root\nBefore=network-pre.target\n"
        f"[Service]\nType=oneshot\nRemainAfterExit=yes\n{load}[Install]\nWantedBy=multi-user.target\n"
    )
    files["/etc/systemd/system/grass-metadata.service"] = unit
    commands = [["systemctl", "enable", "--now", "grass-metadata.service"]]
    if spot:
        files |= {machine_events.PATH: machine_events.program(), f"/etc/systemd/system/{_EVENTS}": _EVENTS_UNIT}
        commands += [["systemctl", "enable", "--now", _EVENTS]]
    # JSON is YAML
    return "#cloud-config\n" + json.dumps(
        {
            "write_files": [{"path": path, "content": text, "permissions": "0644"} for path, text in files.items()],
            "runcmd": [["sysctl", "--system"], *commands] if network is not None else commands,
        }
    )
