"""Settings of a cluster on one machine: Grass's own files, with this machine as a node (`local`) or with namespaces of
Kubernetes alone (`grass/k8s`), MARO's process mode, and MARO's `grass/local`.

Used by ``settings``, ``grass.cli`` and ``grass.provision``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, ClassVar

from grass.manifest import placement, quantities, resource_fields, values
from grass.manifest.cluster_settings import ClusterSettings, count, interval, read_rules
from grass.manifest.containers import read_runtimes
from grass.manifest.fields import Fields
from grass.manifest.isolation import KEYS as ISOLATION_KEYS
from grass.manifest.namespaces import KEY as NAMESPACES
from grass.manifest.namespaces import NamespaceSettings, read_namespaces
from grass.manifest.values import Wrong, show
from grass.model.mode import KUBERNETES, LOCAL
from grass.model.runtime import PROCESSES_ONLY

DEFAULT_NAME = "local"
OWN_NODE = "local"
"""Name of the node that is this machine."""
MARO_NAME = "process"
DEFAULT_REDIS_PORT = 6379
MARO_REDIS_PORT = 19999


@dataclass(frozen=True)
class RedisSettings:
    """Settings of redis. ``embedded``: the cluster runs redis itself; otherwise, yours at ``host`` and ``port``."""

    embedded: bool = True
    host: str | None = None
    port: int | None = None
    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class OfferedResources:
    """The resources that the node offers to tasks, in thousandths of a core, bytes and thousandths of a device.

    None: all that the node has. ``custom``: named countable resources, such as licences.
    """

    cpu: int | None = None
    memory: int | None = None
    gpu: int | None = None
    disk: int | None = None
    custom: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class PortSettings:
    """Ports of the cluster's servers. None: Grass chooses a free port. ``host``: where the API listens. ``url`` and
    ``pod``: see ``MasterConfig``. No file says these three."""

    api: int | None = None
    node_api: int | None = None
    host: str | None = None
    url: str = ""
    pod: str = ""


@dataclass(frozen=True)
class LocalSettings(ClusterSettings):
    """Settings of a cluster on one machine.

    ``labels``, ``topology``, ``runtimes``: of the node. ``mounts``: folders of this machine that containers may mount.
    ``task_redis``: port of a redis for tasks (0: a free one; None: there is none). ``namespaces``: become nodes, too.
    """

    mode = LOCAL
    own_node: ClassVar[str] = OWN_NODE
    """Name of the node that is this machine; empty: it is none, and all that is said above of a node does not count."""
    name: str = DEFAULT_NAME
    redis: RedisSettings = RedisSettings()
    task_redis: int | None = None
    resources: OfferedResources = OfferedResources()
    ports: PortSettings = PortSettings()
    labels: dict[str, str] = field(default_factory=dict)
    topology: tuple[str, ...] = ()
    runtimes: tuple[str, ...] = PROCESSES_ONLY
    mounts: tuple[str, ...] = ()
    namespaces: tuple[NamespaceSettings, ...] = ()


@dataclass(frozen=True)
class KubernetesSettings(LocalSettings):
    """Settings of a cluster whose master is a machine, in most cases this one, and whose nodes are ``namespaces``."""

    mode = KUBERNETES
    own_node = ""


class _RedisMode(str, Enum):
    MARO = "MARO"
    CUSTOMIZED = "customized"


_port = values.whole(1, 65535)

_NOT_OF_PODS = {
    **dict.fromkeys(
        ("resources", "labels", "topology", "runtimes", "mounts", "reserve", "low_disk", "topology_command"),
        "is of this machine, which is no node here; say it of a namespace, or use `mode: local` with `namespaces`",
    ),
    "task_redis": "is for tasks on this machine; pods do not reach it",
}
"""Keys of other kinds of clusters, with why they have no meaning."""


def read_local(fields: Fields) -> LocalSettings:
    for key in ISOLATION_KEYS:
        fields.refuse(key, "is for a cluster on several hosts; on one machine, tasks run as you")
    return LocalSettings(
        name=fields.read("name", values.name, DEFAULT_NAME),
        task_redis=_read_task_redis(fields),
        resources=_read_resources(fields),
        ports=_read_ports(fields),
        labels=placement.read_labels(fields),
        topology=placement.read_topology(fields),
        runtimes=tuple(each.value for each in read_runtimes(fields)) or LocalSettings.runtimes,
        mounts=tuple(fields.parsed(path, values.absolute_path, item, item) for path, item in fields.items("mounts")),
        namespaces=read_namespaces(fields, {OWN_NODE: "this machine"}),
        **_read_master(fields),
    )


def _read_master(fields: Fields) -> dict[str, Any]:  # Any: values of several types, passed on as keyword arguments
    """Read what is said of a master on this machine."""
    return {
        "redis": _read_redis(fields),
        "keep_agent_alive": fields.read("keep_agent_alive", values.truth, LocalSettings.keep_agent_alive),
        "agent_countdown": fields.read("agent_countdown", count, LocalSettings.agent_countdown),
        **read_rules(fields),
    }


def read_outside(fields: Fields) -> KubernetesSettings:
    namespaces = read_namespaces(fields, {})
    if not namespaces and not fields.raw(NAMESPACES):
        fields.problems.add(NAMESPACES, "is missing; it lists the namespaces of Kubernetes that become nodes")
    fields.refuse("cloud", "is for `mode: k8s/aks`, which makes a Kubernetes; this mode uses one that exists")
    name = fields.require("name", values.name, DEFAULT_NAME)
    return replace(read_host(fields), name=name, namespaces=namespaces)


def read_host(fields: Fields) -> KubernetesSettings:
    """Read what is said of a master on this machine, which is no node itself."""
    for key in ISOLATION_KEYS:
        fields.refuse(key, "is for a cluster on several hosts; pods are apart by themselves")
    for key, why in _NOT_OF_PODS.items():
        fields.refuse(key, why)
    with fields.within("ports") as ports:
        ports.refuse("node_api", "this machine is no node here")
        api = ports.read("api", _port, None)
    return KubernetesSettings(ports=PortSettings(api), **_read_master(fields))


def _read_redis(fields: Fields) -> RedisSettings:
    with fields.within("redis") as section:
        own = section.has("host")
        embedded = section.read("embedded", values.truth, not own)
        settings = RedisSettings(
            embedded=embedded,
            host=section.read("host", values.text, None),
            port=section.read("port", _port, DEFAULT_REDIS_PORT if own else None),
            password=section.read("password", values.scalar_text, None),
        )
        if embedded:
            for key in ("host", "port", "password"):
                section.refuse(key, "is for your own redis; leave it out, or set `embedded: false`")
        elif not own:
            section.problems.add(section.at("host"), "is missing; it is the host of your redis")
    return settings


def _read_task_redis(fields: Fields) -> int | None:
    """Read ``true``, ``false`` or ``{port: PORT}``."""
    if not isinstance(fields.raw("task_redis"), dict):
        return 0 if fields.read("task_redis", values.truth, False) else None
    with fields.within("task_redis") as section:
        return section.read("port", _port, 0)


def _read_resources(fields: Fields) -> OfferedResources:
    with fields.within("resources") as section:
        return OfferedResources(
            cpu=section.read("cpu", quantities.all_or(quantities.cpu), None),
            memory=section.read("memory", quantities.all_or(quantities.memory), None),
            gpu=section.read("gpu", quantities.all_or(quantities.devices), None),
            disk=section.read("disk", quantities.all_or(quantities.memory), None),
            custom={name: amount for name, amount in resource_fields.read_custom(section).items() if amount},
        )


def _read_ports(fields: Fields) -> PortSettings:
    with fields.within("ports") as section:
        ports = PortSettings(section.read("api", _port, None), section.read("node_api", _port, None))
        if ports.api is not None and ports.api == ports.node_api:
            section.problems.add(section.at("node_api"), f"{ports.api} is already used by `api`")
    return ports


def read_maro_process(fields: Fields) -> LocalSettings:
    fields.lenient = True
    warnings: list[str] = []
    customized = fields.read("redis_mode", values.one_of(_RedisMode), _RedisMode.MARO) is _RedisMode.CUSTOMIZED
    redis, task_redis = _read_redis_info(fields, customized, warnings)
    return LocalSettings(
        name=fields.read("name", values.name, MARO_NAME),
        redis=redis,
        task_redis=task_redis,
        parallel_level=fields.read("parallel_level", count, 1),
        check_interval=fields.read("check_interval", interval, 60.0),
        keep_agent_alive=fields.read("keep_agent_alive", _flag, LocalSettings.keep_agent_alive),
        agent_countdown=fields.read("agent_countdown", count, LocalSettings.agent_countdown),
        warnings=tuple(warnings),
    )


def _read_redis_info(fields: Fields, customized: bool, warnings: list[str]) -> tuple[RedisSettings, int | None]:
    """Return the cluster's redis, and the port of the one for tasks. MARO has one for both."""
    with fields.within("redis_info") as section:
        host = section.read("host", values.text, "localhost")
        port = section.read("port", _port, MARO_REDIS_PORT)
    if customized:
        return RedisSettings(embedded=False, host=host, port=port), None
    if host not in ("localhost", "127.0.0.1"):
        here = "with redis_mode MARO, Grass runs the redis for tasks on this machine"
        warnings.append(f"redis_info.host: {show(host)} is ignored; {here}")
    return RedisSettings(), port if section.intact else None


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value in (0, 1) and isinstance(value, int):
        return value == 1
    raise Wrong(f"must be 1 or 0, got {show(value)}")


def read_maro_local(fields: Fields) -> LocalSettings:
    fields.lenient = True
    name = fields.require("name", values.name, DEFAULT_NAME)
    master = fields.section("master")
    if master is None:
        return LocalSettings(name=name)
    with master.within("redis") as redis:
        port = redis.read("port", _port, MARO_REDIS_PORT)
    settings = LocalSettings(
        name=name,
        task_redis=port if redis.intact else None,
        resources=_read_maro_resource(master),
        check_interval=_read_maro_interval(master),
    )
    master.done()
    return settings


def _read_maro_resource(master: Fields) -> OfferedResources:
    with master.within("resource") as section:
        return OfferedResources(
            cpu=section.read("cpu", quantities.all_or(quantities.cpu), None),
            memory=section.read("memory", quantities.all_or(quantities.maro_memory), None),
            gpu=section.read("gpu", quantities.all_or(quantities.devices), None),
        )


def _read_maro_interval(master: Fields) -> float:
    with master.within("agents") as section:
        return section.read("check_interval", interval, 30.0)
