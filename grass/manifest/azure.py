"""Reads the settings of a cluster on machines that Grass makes: ``mode: grass/azure``, in Grass's form and in MARO's.

A machine there is a host as any other: these settings extend those of a cluster of several hosts, whose master has no
address until it is made. Used by ``settings``, ``grass.azure`` and ``grass.provision.azure``.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from dataclasses import fields as fields_of
from enum import Enum
from typing import Any

from grass.manifest import values
from grass.manifest.azure_autoscale import Autoscale, read_autoscale
from grass.manifest.azure_images import Start, obstacles_to, read_sizes, read_start, start_of
from grass.manifest.azure_sizes import size_name
from grass.manifest.fields import Fields
from grass.manifest.on_premises import (
    ApiWay,
    Become,
    HostSettings,
    Login,
    OnPremisesSettings,
    login_name,
    read_hosts,
)
from grass.manifest.values import Wrong, show
from grass.model.isolation import ContainerUser, Isolation
from grass.model.mode import AZURE

ENDPOINT = "https://management.azure.com"
USER = "azureuser"
_RESERVED_ADDRESSES = 5
"""Azure keeps these in each subnet; one is for the master, one for nodes."""
_WIDEST = 8
"""Length of the shortest prefix that SSH may come from: a shorter one is as good as everywhere."""

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,38}[A-Za-z0-9])?")
_GROUP = re.compile(r"[A-Za-z0-9_()-]([A-Za-z0-9_().-]{0,88}[A-Za-z0-9_()-])?")
_LOCATION = re.compile(r"[a-z0-9]{2,40}")
_NO_LOCATION = "is missing; it is a region such as westeurope"
_CONNECTION = {"ssh": "SSH is on port 22", "api_server": "commands reach the API through SSH"}
_KINDS = ("ssh-ed25519", "ssh-rsa")
_REFUSED_USERS = frozenset(
    [
        "administrator",
        "admin",
        "user",
        "user1",
        "test",
        "user2",
        "test1",
        "user3",
        "admin1",
        "1",
        "123",
        "a",
        "actuser",
        "adm",
        "admin2",
        "aspnet",
        "backup",
        "console",
        "david",
        "guest",
        "john",
        "owner",
        "root",
        "server",
        "sql",
        "support",
        "support_388945a0",
        "sys",
        "test2",
        "test3",
        "user4",
        "user5",
        "grass",
    ]
)
"""Azure refuses these names, except the last, which is that of the system user of Grass's daemons."""


class Nat(str, Enum):
    """How nodes, which have no public address, reach the Internet: through the master, or what Azure sells for it."""

    MASTER = "master"
    GATEWAY = "gateway"


@dataclass(frozen=True)
class Cloud:
    """Where on Azure. ``subscription``: name or id; None: the only one of the login."""

    subscription: str | None
    location: str
    resource_group: str
    use_existing_group: bool = False
    """Whether a group that Grass did not make may be used. Grass then never removes it."""
    tags: dict[str, str] = field(default_factory=dict)
    endpoint: str = ENDPOINT
    """Azure's resource manager; clouds of their own (China, government, Azure Stack) have another."""


@dataclass(frozen=True)
class MachineSettings:
    """A virtual machine. ``image``: ``PUBLISHER:OFFER:SKU:VERSION``. ``disk``: GiB. ``zone`` None: Azure chooses.

    ``spot``: it is cheap, and Azure may take it back. ``max_price``: dollars an hour above which Azure does;
    None: the regular price. The master is never such a machine.
    """

    size: str = "Standard_B2s"
    image: str = "Canonical:ubuntu-24_04-lts:server:latest"
    disk: int = 32
    zone: str | None = None
    spot: bool = False
    max_price: float | None = None

    def start_of(self, size: str, sizes: Mapping[str, Start]) -> Start:
        """Return what a node of a size starts from, if this is the master. ``sizes``: as in the settings."""
        return start_of(size, sizes.get(size.lower(), Start()), (self.size, Start(self.image, self.disk)))


@dataclass(frozen=True, kw_only=True)
class AzureSettings(OnPremisesSettings):
    """Settings of a cluster on Azure. ``master.address`` is empty: the address is made with the machine.

    ``network``: private addresses of the machines. ``ssh_from``: where SSH may come from; empty: this machine's address
    as the Internet sees it. ``public_key`` None: that of ``master.login.key``; without that, Grass makes a key.
    ``autoscale`` None: nothing is started or stopped by itself. ``sizes``: lower-case size → what the file says that
    its machines start from.
    """

    mode = AZURE
    cloud: Cloud
    machine: MachineSettings = MachineSettings()
    network: str = "10.60.0.0/22"
    nat: Nat = Nat.MASTER
    ssh_from: tuple[str, ...] = ()
    public_key: str | None = None
    autoscale: Autoscale | None = None
    sizes: dict[str, Start] = field(default_factory=dict)


def read_azure(fields: Fields) -> AzureSettings:
    warnings: list[str] = []
    cloud = fields.raw("cloud")
    of_maro = isinstance(cloud, dict) and ("default_public_key" in cloud or "default_username" in cloud)
    fields.lenient = of_maro
    fields.refuse(
        "nodes",
        "not in the file on Azure: `grass node scale SIZE N` makes them once the cluster exists, and `grass node add` "
        "joins machines that you have",
    )
    name = fields.require("name", azure_name, "")
    where, user, public_key = _read_cloud(fields, name)
    login, ssh_from, own_key = _read_ssh(fields, user)
    with fields.within("connection") as connection:  # of MARO's files
        for part, why in _CONNECTION.items():
            if connection.has(part):
                warnings.append(f"connection.{part}: ignored; {why}")
    master = fields.section("master") or Fields({}, "master", fields.problems)
    machine = _read_machine(master)
    hosts = read_hosts(fields, name, master, HostSettings("", login, "master"), of_maro=of_maro, api=ApiWay.TUNNEL)
    network, nat = _read_network(fields)
    sizes, autoscale = read_sizes(fields), read_autoscale(fields)
    _check_images(fields, machine, sizes, autoscale)
    _check_identity(fields, hosts, autoscale)
    return AzureSettings(
        **{each.name: getattr(hosts, each.name) for each in fields_of(hosts) if each.name != "warnings"},
        cloud=where,
        machine=machine,
        network=network,
        nat=nat,
        ssh_from=ssh_from,
        autoscale=autoscale,
        sizes=sizes,
        public_key=own_key or public_key,
        warnings=tuple(warnings),
    )


def _read_cloud(fields: Fields, name: str) -> tuple[Cloud, str, str | None]:
    """Return where, and user and public key of MARO's files."""
    check_cloud(fields)
    with fields.within("cloud") as section:
        user = section.read("default_username", _user, USER)
        return read_place(section, name), user, section.read("default_public_key", _public_key, None)


def read_place(section: Fields, name: str) -> Cloud:
    group = _matching(_GROUP, "the name of a resource group")
    return Cloud(
        subscription=section.read("subscription", values.text, None),
        location=section.require("location", _location, "", _NO_LOCATION),
        resource_group=section.read("resource_group", group, f"grass-{name}"),
        use_existing_group=section.read("use_existing_group", values.truth, False),
        tags={key: section.parsed(path, _tag, value, "") for path, key, value in section.named("tags")},
        endpoint=section.read("endpoint", _endpoint, ENDPOINT),
    )


def check_cloud(fields: Fields) -> None:
    if not fields.has("cloud"):
        fields.problems.add("cloud", "is missing; it says at least the `location` of the machines")


def _read_ssh(fields: Fields, user: str) -> tuple[Login, tuple[str, ...], str | None]:
    with fields.within("ssh") as section:
        for key in ("port", "password"):
            section.refuse(key, "has no meaning on Azure: machines are made with SSH on port 22, for keys alone")
        login = Login(
            username=section.read("user", _user, user), key=section.read("key", values.text, None), become=Become.SUDO
        )
        sources = tuple(section.parsed(path, source, item, "") for path, item in section.items("from"))
        return login, sources, section.read("public_key", _public_key, None)


def _read_machine(master: Fields) -> MachineSettings:
    size = master.read("size", size_name, master.read("node_size", size_name, MachineSettings.size))
    start = start_of(size, read_start(master))
    return MachineSettings(
        size=size,
        image=start.image,
        disk=start.disk,
        zone=master.read("zone", _zone, None),
    )


def _check_images(
    fields: Fields, machine: MachineSettings, sizes: Mapping[str, Start], autoscale: Autoscale | None
) -> None:
    for each in obstacles_to(machine.size, Start(machine.image, machine.disk)):
        fields.problems.add("master.size", each)
    for rule in autoscale.rules if autoscale is not None else ():
        for each in obstacles_to(rule.size, machine.start_of(rule.size, sizes)):
            fields.problems.add(f"autoscale.sizes.{rule.size}", each)


def _check_identity(fields: Fields, hosts: OnPremisesSettings, autoscale: Autoscale | None) -> None:
    """Any process of root's may ask for a token of the machine's identity, so no task may be root there: containers
    share the network of their machine."""
    if autoscale is None or not autoscale.on_master:
        return
    if hosts.isolation.kind is Isolation.NONE:
        fields.problems.add("autoscale.on_master", "needs `isolation: user`: no task may use the master's identity")
    elif hosts.isolation.containers.user is ContainerUser.IMAGE:
        fields.problems.add(
            "autoscale.on_master", "needs `containers: {user: account}`: no task may use the master's identity as root"
        )


def _read_network(fields: Fields) -> tuple[str, Nat]:
    with fields.within("network") as section:
        addresses = section.read("range", _range, "10.60.0.0/22")
        return addresses, section.read("nat", values.one_of(Nat), Nat.MASTER)


def _matching(pattern: re.Pattern[str], what: str) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise Wrong(f"must be {what}, got {show(value)}")
        return value

    return parse


def azure_name(value: Any) -> str:
    name = values.name(value)
    if not _NAME.fullmatch(name):
        raise Wrong(f"must be at most 40 letters, digits and `-` on Azure, got {show(value)}")
    return name


def _location(value: Any) -> str:
    """Parse ``westeurope``, or the name for people, ``West Europe``."""
    name = value.replace(" ", "").lower() if isinstance(value, str) else value
    return _matching(_LOCATION, "a region such as westeurope")(name)


def _tag(value: Any) -> str:
    text = values.scalar_text(value)
    if len(text) > 256:
        raise Wrong(f"must have at most 256 characters, got {len(text)}")
    return text


def _endpoint(value: Any) -> str:
    text = values.text(value).rstrip("/")
    if not re.fullmatch(r"https://[A-Za-z0-9.-]+(:[0-9]{1,5})?", text):
        raise Wrong(f"must be https://HOST[:PORT], got {show(value)}")
    return text


def _user(value: Any) -> str:
    name = login_name(value)
    if name.lower() in _REFUSED_USERS:
        raise Wrong(f"must be another name than {name}: Azure or Grass keeps it for itself; use {USER}")
    return name


def _public_key(value: Any) -> str:
    kind, _, rest = values.text(value).strip().partition(" ")
    blob = rest.split(" ")[0]
    try:
        if kind not in _KINDS or not base64.b64decode(blob, validate=True):
            raise binascii.Error
    except binascii.Error:
        raise Wrong(f"must be an SSH public key, `ssh-ed25519 …` or `ssh-rsa …`, got {show(value)}") from None
    return f"{kind} {blob}"


def _network(value: Any) -> ipaddress.IPv4Network:
    try:
        return ipaddress.IPv4Network(value if isinstance(value, str) else "")
    except ValueError as error:
        raise Wrong(f"must be IPv4 addresses such as 203.0.113.0/24, got {show(value)}") from error


def source(value: Any) -> str:
    network = _network(value)
    if network.prefixlen < _WIDEST:
        raise Wrong(f"must not be everywhere: /{_WIDEST} at least, got {show(value)}")
    return str(network)


def _range(value: Any) -> str:
    network = _network(value)
    if not network.is_private:
        raise Wrong(f"must be private addresses such as 10.60.0.0/22, got {show(value)}")
    if network.num_addresses // 2 <= _RESERVED_ADDRESSES:
        kept = f"Azure keeps {_RESERVED_ADDRESSES} of the {network.num_addresses // 2} addresses of each half"
        raise Wrong(f"is too small: {kept}, for the master and for nodes")
    return str(network)


def _zone(value: Any) -> str:
    return str(values.whole(1, 9)(value))
