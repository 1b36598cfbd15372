"""What a cluster consists of on Azure: names, paths, pinned API versions and request bodies. Pure.

Every name is fixed, so a repeated request finds what an interrupted one made. What Grass makes carries the tag
``grass-id``, or has this id in its name, where Azure makes it along with something else. Used by this package and
``grass.provision.azure``.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from enum import Enum

from grass.manifest.azure import AzureSettings
from grass.manifest.document import Document
from grass.manifest.on_premises import ApiWay

ID_TAG, CLUSTER_TAG, BODY_TAG = "grass-id", "grass-cluster", "grass-body"

RESOURCES = "2025-04-01"
SUBSCRIPTIONS = "2022-12-01"
NETWORKING = "2025-09-01"
COMPUTE = "2026-04-01"
DISKS = "2026-03-02"
SKUS = "2021-07-01"
LOCKS = "2020-05-01"
ASSIGNMENTS = "2022-06-01"
_INLINE_NETWORK = "2022-11-01"
"""Version of the network's types that the body of a machine uses for its card."""

NAMESPACES = ("Microsoft.Compute", "Microsoft.Network")
_PORT_OF_SSH = 22

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


class Kind(Enum):
    """Kinds of resources, in the order in which they are made. Value: type, API version, usual seconds to make one."""

    GROUP = ("Microsoft.Resources/resourceGroups", RESOURCES, 5)
    RULES = ("Microsoft.Network/networkSecurityGroups", NETWORKING, 10)
    NETWORK = ("Microsoft.Network/virtualNetworks", NETWORKING, 10)
    ADDRESS = ("Microsoft.Network/publicIPAddresses", NETWORKING, 10)
    MACHINE = ("Microsoft.Compute/virtualMachines", COMPUTE, 180)
    CARD = ("Microsoft.Network/networkInterfaces", NETWORKING, 10)
    DISK = ("Microsoft.Compute/disks", DISKS, 10)

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
    Kind.NETWORK: "network",
    Kind.ADDRESS: "public address",
    Kind.MACHINE: "machine",
    Kind.CARD: "network card",
    Kind.DISK: "disk",
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
    """Return what tells two bodies apart, without tags: they may change."""
    bare = {key: value for key, value in body.items() if key != "tags"}
    return hashlib.sha256(json.dumps(bare, sort_keys=True).encode()).hexdigest()[:16]


def wanted(settings: AzureSettings, site: Site, sources: tuple[str, ...], key: str) -> tuple[Wanted, ...]:
    """Return what a cluster with one master consists of, in the order in which it is made.

    ``sources``: addresses that SSH may come from. ``key``: the public key that may log in.
    """
    name, cloud = settings.name, settings.cloud
    ports = [_PORT_OF_SSH] + ([settings.api_port] if settings.api is ApiWay.DIRECT else [])
    paths = {kind: site.path(kind, named) for kind, named in names(name, cloud.resource_group).items()}
    bodies: dict[Kind, Document] = {
        Kind.GROUP: {},
        Kind.RULES: _rules(sources, ports),
        Kind.NETWORK: _network(settings.network, paths[Kind.RULES]),
        Kind.MACHINE: _machine(settings, site, paths, key),
    }
    tags = {**cloud.tags, CLUSTER_TAG: name, ID_TAG: site.id}
    return tuple(
        Wanted(kind, names(name, cloud.resource_group)[kind], paths[kind], _complete(body, cloud.location, tags))
        for kind, body in bodies.items()
    )


def names(cluster: str, group: str) -> dict[Kind, str]:
    return {
        Kind.GROUP: group,
        Kind.RULES: f"{cluster}-rules",
        Kind.NETWORK: f"{cluster}-net",
        Kind.MACHINE: f"{cluster}-master",
    }


def in_zone(machine: Wanted, zone: str) -> Wanted:
    """Return the machine as it would be in another zone."""
    body = {key: value for key, value in machine.body.items() if key not in ("tags", "location")}
    tags = {key: value for key, value in machine.body["tags"].items() if key != BODY_TAG}
    changed = _complete({**body, "zones": [zone]}, machine.body["location"], tags)
    return Wanted(machine.kind, machine.name, machine.path, changed)


def _complete(body: Document, location: str, tags: dict[str, str]) -> Document:
    whole: Document = {"location": location, **body}
    return {**whole, "tags": {**tags, BODY_TAG: body_hash(whole)}}


def _rules(sources: tuple[str, ...], ports: list[int]) -> Document:
    rule = {
        "name": "grass-in",
        "properties": {
            "priority": 1000,
            "direction": "Inbound",
            "access": "Allow",
            "protocol": "Tcp",
            "sourceAddressPrefixes": list(sources),
            "sourcePortRange": "*",
            "destinationAddressPrefix": "*",
            "destinationPortRanges": [str(port) for port in ports],
        },
    }
    return {"properties": {"securityRules": [rule]}}


def _network(addresses: str, rules: str) -> Document:
    subnet = {
        "name": "machines",
        "properties": {
            "addressPrefix": addresses,
            "networkSecurityGroup": {"id": rules},
            "defaultOutboundAccess": False,  # as Azure's newer versions have it, said so that it never depends on one
        },
    }
    return {"properties": {"addressSpace": {"addressPrefixes": [addresses]}, "subnets": [subnet]}}


def _machine(settings: AzureSettings, site: Site, paths: dict[Kind, str], key: str) -> Document:
    name, machine = names(settings.name, "")[Kind.MACHINE], settings.machine
    publisher, offer, sku, version = machine.image.split(":")
    user = settings.master.login.username
    body: Document = {
        "properties": {
            "hardwareProfile": {"vmSize": machine.size},
            "storageProfile": {
                "imageReference": {"publisher": publisher, "offer": offer, "sku": sku, "version": version},
                "osDisk": {
                    "name": f"{name}-os-{site.id}",
                    "createOption": "FromImage",
                    "deleteOption": "Delete",
                    "diskSizeGB": machine.disk,
                    "managedDisk": {"storageAccountType": "StandardSSD_LRS"},
                },
            },
            "osProfile": {
                "computerName": name,
                "adminUsername": user,
                "customData": base64.b64encode(_first_boot().encode()).decode(),
                "linuxConfiguration": {
                    "disablePasswordAuthentication": True,
                    "ssh": {"publicKeys": [{"path": f"/home/{user}/.ssh/authorized_keys", "keyData": key}]},
                },
            },
            "networkProfile": {
                "networkApiVersion": _INLINE_NETWORK,
                "networkInterfaceConfigurations": [_card(settings, site, paths)],
            },
            "diagnosticsProfile": {"bootDiagnostics": {"enabled": True}},
        }
    }
    return {**body, "zones": [machine.zone]} if machine.zone else body


def _card(settings: AzureSettings, site: Site, paths: dict[Kind, str]) -> Document:
    """Return the card of the machine, with its public address. Azure makes both along with the machine, removes them
    with it, and gives their names a random ending."""
    tags = {**settings.cloud.tags, CLUSTER_TAG: settings.name, ID_TAG: site.id}
    public = {
        "name": f"{settings.name}-master-ip-{site.id}",
        "sku": {"name": "Standard"},
        "properties": {"deleteOption": "Delete", "publicIPAllocationMethod": "Static"},
        "tags": tags,
    }
    first = {
        "name": "first",
        "properties": {
            "primary": True,
            "subnet": {"id": f"{paths[Kind.NETWORK]}/subnets/machines"},
            "publicIPAddressConfiguration": public,
        },
    }
    return {
        "name": f"{settings.name}-master-card-{site.id}",
        "properties": {"primary": True, "deleteOption": "Delete", "ipConfigurations": [first]},
        "tags": tags,
    }


def _first_boot() -> str:
    """Return what cloud-init does at the first boot. Nothing in it is secret: it stays readable on the machine."""
    unit = (
        "[Unit]\nDescription=Leave the metadata service of Azure to root\nBefore=network-pre.target\n"
        "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/usr/sbin/nft -f /etc/grass-metadata.nft\n"
        "[Install]\nWantedBy=multi-user.target\n"
    )
    files = {"/etc/grass-metadata.nft": _CLOSED_METADATA, "/etc/systemd/system/grass-metadata.service": unit}
    # JSON is YAML
    return "#cloud-config\n" + json.dumps(
        {
            "write_files": [{"path": path, "content": text, "permissions": "0644"} for path, text in files.items()],
            "runcmd": [["systemctl", "enable", "--now", "grass-metadata.service"]],
        }
    )
