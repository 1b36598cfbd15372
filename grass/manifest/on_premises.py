"""Reads the machines in a settings file: ``mode: grass/on-premises``, in Grass's own form and in MARO's.

``docs/reference/settings-file.md`` explains every key. A value None is detected on the machine, or has the default
beside its field. Used by ``join_file``, ``settings``, ``grass.cli`` and ``grass.provision.on_premises``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from grass.manifest import quantities, values
from grass.manifest.cluster_settings import ClusterSettings, read_rules
from grass.manifest.containers import read_runtimes
from grass.manifest.fields import Fields, Problems
from grass.manifest.isolation import IsolationSettings, read_isolation
from grass.manifest.placement import read_labels, read_topology
from grass.manifest.values import Wrong, show
from grass.model.mode import ON_PREMISES
from grass.model.names import is_image_name
from grass.model.runtime import RuntimeName
from grass.network_address import network_address

API_PORT, REDIS_PORT, COLLECTOR_PORT, SAMBA_PORT, NODE_API_PORT = 51812, 6379, 24224, 51445, 51813
TASK_REDIS_PORT = 51814
TASKS_PORT = 6379
"""Where MARO's programs look for a redis, on their own machine."""

_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*")
_LOGIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}")
_SPELLED = re.compile(r"(?:(?P<user>[^@]+)@)?(?P<host>[^@]+?)(?::(?P<port>[0-9]{1,5}))?")
_PASSWORD = re.compile(r"[\x21-\x7e]{8,127}")


class Become(str, Enum):
    NONE = "none"
    SUDO = "sudo"


class Processor(str, Enum):
    """Processors for which every required package has wheels."""

    X86_64 = "x86_64"
    AARCH64 = "aarch64"


class ApiWay(str, Enum):
    """How the command line reaches the API: at the API's address, or through SSH to the master."""

    DIRECT = "direct"
    TUNNEL = "tunnel"


class Collector(str, Enum):
    BUILTIN = "builtin"
    FLUENTD = "fluentd"


@dataclass(frozen=True)
class Login:
    """How to log in to a machine by SSH and become root. ``username`` None: the name of the user who runs `grass`."""

    username: str | None = None
    port: int = 22
    key: str | None = None
    password: str | None = field(default=None, repr=False)
    become: Become = Become.NONE


@dataclass(frozen=True)
class Jump:
    """A host from which another is reached by SSH."""

    address: str
    login: Login = Login()


@dataclass(frozen=True)
class HostSettings:
    """Addresses of a host. ``address``: for SSH. ``private_address``: for the other machines of the cluster.

    ``through``: the host from which ``address`` is reached; None: it is reached from here."""

    address: str
    login: Login = Login()
    name: str | None = None
    private_address: str | None = None
    through: Jump | None = None

    @property
    def endpoint(self) -> str:
        """Return ``HOST:PORT`` for SSH. It is never a node's name, because node names hold no colon."""
        return network_address(self.address, self.login.port)


@dataclass(frozen=True)
class NodeSettings:
    """A machine that joins at create. Resources as in ``OfferedResources``; None: all that the machine has."""

    host: HostSettings
    labels: dict[str, str] = field(default_factory=dict)
    topology: tuple[str, ...] = ()
    cpu: int | None = None
    memory: int | None = None
    gpu: int | None = None
    runtimes: tuple[RuntimeName, ...] = ()
    """If empty: processes, and containers if there is an engine."""
    mounts: tuple[str, ...] = ()
    api_port: int = NODE_API_PORT


@dataclass(frozen=True)
class StandbySettings:
    """The machine that follows the master. ``needed``: writes are refused while it is away. ``witness``: the node with
    whose vote it takes over by itself; empty: it never does."""

    host: HostSettings
    needed: bool = False
    witness: str = ""


class WhenAway(str, Enum):
    GO_ON = "go-on"
    REFUSE = "refuse"


@dataclass(frozen=True, kw_only=True)
class OnPremisesSettings(ClusterSettings):
    """Settings of a cluster of several hosts: its machines, and what they share.

    ``api_bind`` None: every address with `api: direct`, the cluster's own address with `api: tunnel`.
    """

    mode = ON_PREMISES
    master: HostSettings
    nodes: tuple[NodeSettings, ...] = ()
    admin: str | None = None
    api: ApiWay = ApiWay.DIRECT
    api_port: int = API_PORT
    api_bind: str | None = None
    redis_port: int = REDIS_PORT
    collector: Collector = Collector.BUILTIN
    collector_port: int = COLLECTOR_PORT
    fluentd_image: str | None = None
    """Container image of fluentd for the master's docker engine; None: an installed fluentd."""
    task_redis: int | None = None
    """Port at which tasks find a redis, as localhost of each node; None: there is none."""
    task_redis_port: int = TASK_REDIS_PORT
    """Port of this redis on the master."""
    samba_port: int = SAMBA_PORT
    samba_password: str | None = field(default=None, repr=False)
    share: str | None = None
    """An existing mount at the same path on every machine; None: the master's samba share."""
    install_node_runtime: bool = True
    """Whether Grass may install missing system packages."""
    join_after_create: bool = True
    isolation: IsolationSettings = field(default_factory=IsolationSettings)
    machines: tuple[str, ...] = ()
    """Machine types of nodes (as in ``uname -m``) besides the master's; `create` brings Grass for these types, too."""
    standby: StandbySettings | None = None
    autoscaler: str = field(default="", repr=False)
    """What the autoscaler on the master reads, as JSON; empty: there is none. Made by the provisioner of a cloud."""


def read_on_premises(fields: Fields) -> OnPremisesSettings:
    master = fields.raw("master")
    fields.lenient = isinstance(master, dict) and "public_ip_address" in master
    name = fields.require("name", values.name, "")
    default = _login(fields, Login())
    master = fields.section("master")
    if master is None:
        fields.require("master", values.text, "", "is missing; it says which machine is the master")
        return OnPremisesSettings(name=name, master=HostSettings(""), **read_rules(fields))
    host = _host(master, default)
    settings = read_hosts(fields, name, master, host, of_maro=master.has("public_ip_address"))
    settings = replace(settings, nodes=tuple(_nodes(fields, default)), standby=_standby(fields, default))
    _check_names(settings, fields)
    _check_standby(settings, fields)
    return settings


def read_hosts(
    fields: Fields, name: str, master: Fields, host: HostSettings, *, of_maro: bool, api: ApiWay = ApiWay.DIRECT
) -> OnPremisesSettings:
    """Read all but the machines. ``master``: the section of the master, whose services are read here, too. ``api``: if
    the file does not say."""
    settings = OnPremisesSettings(
        name=name,
        master=host,
        admin=_admin(fields),
        api=fields.read("api", values.one_of(ApiWay), api),
        share=read_share(fields, "every machine"),
        collector=fields.read("collector", values.one_of(Collector), Collector.BUILTIN),
        install_node_runtime=read_install(fields) is not False,
        join_after_create=fields.read("join_after_create", values.truth, True),
        isolation=read_isolation(fields),
        machines=_machines(fields),
        **read_rules(fields),
    )
    settings = _services(master, settings)
    master.done()
    settings = _task_redis(fields, settings, of_maro=of_maro)
    _check_ports(settings, fields, master)
    return settings


def _services(master: Fields, settings: OnPremisesSettings) -> OnPremisesSettings:
    for key in ("api", "api_server"):
        if (section := master.section(key)) is not None:
            port = section.read("port", port_number, settings.api_port)
            settings = replace(settings, api_port=port, api_bind=section.read("bind", address, None))
            section.done()
    with master.within("redis") as redis:
        settings = replace(settings, redis_port=redis.read("port", port_number, REDIS_PORT))
    with master.within("fluentd") as fluentd:
        port, image = fluentd.read("port", port_number, COLLECTOR_PORT), fluentd.read("image", _image, None)
        settings = replace(settings, collector_port=port, fluentd_image=image)
        if image is not None and settings.collector is not Collector.FLUENTD:
            fluentd.problems.add(fluentd.at("image"), "requires `collector: fluentd`")
    with master.within("samba") as samba:
        port, password = samba.read("port", port_number, SAMBA_PORT), samba.read("password", _password, None)
        return replace(settings, samba_port=port, samba_password=password)


def _task_redis(fields: Fields, settings: OnPremisesSettings, *, of_maro: bool) -> OnPremisesSettings:
    """Read ``true``, ``false`` or ``{port: …, server_port: …}``. MARO's ``master.redis`` is meant for tasks."""
    if not isinstance(fields.raw("task_redis"), dict):
        wanted = fields.read("task_redis", values.truth, of_maro)
        port = settings.redis_port if of_maro else TASKS_PORT
        return replace(settings, task_redis=port if wanted else None)
    with fields.within("task_redis") as section:
        return replace(
            settings,
            task_redis=section.read("port", port_number, TASKS_PORT),
            task_redis_port=section.read("server_port", port_number, TASK_REDIS_PORT),
        )


def _image(value: Any) -> str:
    name = values.text(value)
    if not is_image_name(name):
        raise Wrong(f"must be the name of a container image such as fluent/fluentd:v1.16-debian-1, got {show(value)}")
    return name


def _host(fields: Fields, default: Login) -> HostSettings:
    """Read a host. MARO's ``public_ip_address`` is for SSH; ``private_ip_address`` is for the cluster."""
    name = fields.read("name", values.name, None) or fields.read("hostname", values.name, None)
    key = "public_ip_address" if fields.has("public_ip_address") else "address"
    where = fields.require(key, address, "", "is missing; it is where SSH answers")
    private = fields.read("private_ip_address", address, None) or fields.read("private_address", address, None)
    fields.has("image_files")  # MARO writes this key into its own files
    return HostSettings(where, _login(fields, default), name, private)


def _login(fields: Fields, default: Login) -> Login:
    username = fields.read("username", login_name, default.username)
    become = fields.read("become", values.one_of(Become), default.become)
    with fields.within("ssh") as section:
        login = Login(
            username=section.read("user", login_name, None) or section.read("username", login_name, username),
            port=section.read("port", port_number, default.port),
            key=section.read("key", values.text, default.key),
            password=section.read("password", values.scalar_text, default.password),
            become=section.read("become", values.one_of(Become), become),
        )
        section.has("public_key")  # of MARO's files: the machine has the key already
    return login


def _admin(fields: Fields) -> str | None:
    with fields.within("user") as section:
        return section.read("admin_id", login_name, None)


def read_share(fields: Fields, who: str) -> str | None:
    """Return where the share is already mounted; None: Grass mounts it. ``who`` has it there, for the message."""
    with fields.within("share") as section:
        missing = f"is missing; it is where {who} has the share mounted"
        return section.require("path", values.absolute_path, None, missing)


def _machines(fields: Fields) -> tuple[str, ...]:
    parse = values.one_of(Processor)
    with fields.within("bundle") as section:
        found = [section.parsed(path, parse, item, Processor.X86_64) for path, item in section.items("machines")]
    return tuple(dict.fromkeys(one.value for one in found))


def read_install(fields: Fields) -> bool | None:
    """Return whether Grass may install missing system packages; None: the file does not say."""
    allowed = fields.read("install_node_runtime", values.truth, None)
    for key in ("configs", "config"):
        with fields.within(key) as section:
            allowed = section.read("install_node_runtime", values.truth, allowed)
            section.read("install_node_gpu_support", values.truth, False)
    return allowed


def read_api_port(fields: Fields, port: int) -> int:
    """Return the port of the API of a master or a node. ``port``: if the file does not say."""
    for key in ("api", "api_server"):
        with fields.within(key) as section:
            port = section.read("port", port_number, port)
    return port


def _nodes(fields: Fields, default: Login) -> Iterator[NodeSettings]:
    for path, item in fields.items("nodes"):
        node = read_node(item, path, fields.problems, default)
        if node is not None:
            yield node


def _standby(fields: Fields, default: Login) -> StandbySettings | None:
    """Read ``user@host:port``, or a mapping with ``address`` or the like, and ``when_away``."""
    if isinstance(fields.raw("standby"), str):
        host = fields.read("standby", lambda value: spelled_host(value, default), HostSettings(""))
        return StandbySettings(host)
    section = fields.section("standby")
    if section is None:
        return None
    when_away = section.read("when_away", values.one_of(WhenAway), WhenAway.GO_ON)
    witness = section.read("witness", values.name, "")
    found = StandbySettings(_host(section, default), when_away is WhenAway.REFUSE, witness)
    section.done()
    return found


def read_node(item: Any, path: str, problems: Problems, default: Login) -> NodeSettings | None:
    """Read ``user@host:port`` or a mapping. Return None after adding a problem."""
    if isinstance(item, str):
        try:
            return NodeSettings(spelled_host(item, default))
        except Wrong as wrong:
            problems.add(path, str(wrong))
            return None
    fields = Fields(item, path, problems)
    if not fields.intact:
        return None
    host = _host(fields, default)
    with fields.within("resources") as offer:
        node = NodeSettings(
            host,
            labels=read_labels(fields),
            topology=read_topology(fields),
            cpu=offer.read("cpu", quantities.all_or(quantities.cpu), None),
            memory=offer.read("memory", quantities.all_or(quantities.memory), None),
            gpu=offer.read("gpu", quantities.all_or(quantities.gpu), None),
            runtimes=read_runtimes(fields),
            mounts=tuple(fields.parsed(path, values.absolute_path, item, "/") for path, item in fields.items("mounts")),
            api_port=read_api_port(fields, NODE_API_PORT),
        )
    fields.done()
    return node


def spelled_host(text: str, default: Login) -> HostSettings:
    """Parse ``[user@]host[:port]``; an IPv6 address with a port needs brackets. Raise Wrong."""
    bare = text.strip()
    if bare.count(":") > 1 and "]" not in bare:
        user, _, host = bare.rpartition("@")
        port = None
    else:
        match = _SPELLED.fullmatch(bare)
        if match is None:
            raise Wrong(f"must be HOST or USER@HOST or USER@HOST:PORT, got {show(text)}")
        user, host, port = match["user"] or "", match["host"].strip("[]"), match["port"]
    login = replace(
        default,
        username=login_name(user) if user else default.username,
        port=port_number(int(port)) if port else default.port,
    )
    return HostSettings(address(host), login)


def address(value: Any) -> str:
    if not isinstance(value, str) or not _HOST.fullmatch(value) or len(value) > 253:
        raise Wrong(f"must be a host name or an IP address, got {show(value)}")
    return value


def login_name(value: Any) -> str:
    if not isinstance(value, str) or not _LOGIN.fullmatch(value):
        raise Wrong(f"must be a user name, got {show(value)}")
    return value


port_number = values.whole(1, 65535)


def _password(value: Any) -> str:
    if not isinstance(value, str) or not _PASSWORD.fullmatch(value):
        raise Wrong("must be 8 to 127 ASCII characters without spaces; leave it out to have one generated")
    return value


def _check_ports(settings: OnPremisesSettings, fields: Fields, master: Fields) -> None:
    taken: dict[int, str] = {settings.master.login.port: "ssh"}
    used = {"api": settings.api_port, "redis": settings.redis_port, "fluentd": settings.collector_port}
    for key, port in (used | ({} if settings.share else {"samba": settings.samba_port})).items():
        if port in taken:
            master.problems.add(f"{master.at(key)}.port", f"{port} is already used by `{taken[port]}`")
        taken[port] = key
    if settings.task_redis is not None and (used_by := taken.get(settings.task_redis_port)):
        fields.problems.add("task_redis.server_port", f"{settings.task_redis_port} is already used by `{used_by}`")


def _check_names(settings: OnPremisesSettings, fields: Fields) -> None:
    seen: dict[str, int] = {}
    for index, node in enumerate(settings.nodes):
        name = node.host.name or node.host.endpoint
        machine = node.host.endpoint.lower()
        for each in dict.fromkeys((name, machine)):
            if each in seen:
                fields.problems.add(f"nodes[{index}]", f"{each} is already nodes[{seen[each]}]")
            seen[each] = index


def _check_standby(settings: OnPremisesSettings, fields: Fields) -> None:
    """A standby on the master's machine is lost with it, and on a node it would have the node's folder."""
    if settings.standby is None:
        return
    others = {settings.master.endpoint.lower(): "master"}
    others |= {node.host.endpoint.lower(): f"nodes[{index}]" for index, node in enumerate(settings.nodes)}
    if (other := others.get(settings.standby.host.endpoint.lower())) is not None:
        fields.problems.add("standby", f"is the same machine as {other}; it must be another one")
    if settings.standby.witness and (why := _no_witness(settings, settings.standby.witness)):
        fields.problems.add("standby.witness", why)


def _no_witness(settings: OnPremisesSettings, name: str) -> str:
    """Return why this node cannot be the witness; empty: it can."""
    assert settings.standby is not None
    for what, host in (("the master", settings.master), ("the standby", settings.standby.host)):
        if name in (host.name, host.address):
            return f"{name} is {what} itself; a witness must be a node on a third machine"
    names = {node.host.name: node.host for node in settings.nodes if node.host.name}
    if name not in names:
        return f"no node {name} in `nodes`; those with a `name` are: {', '.join(names) or 'none'}"
    if names[name].address.lower() == settings.master.address.lower():
        return f"{name} is on the master's machine, and lost with it; a witness must be a node on a third machine"
    if settings.share is None:
        return "needs a `share` that is not on the master: nodes could not mount another one by themselves"
    return ""
