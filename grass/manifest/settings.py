"""Reads the settings file of `grass create FILE`: Grass's own, MARO's process mode, and MARO's `grass/local`.

``docs/reference/settings-file.md`` explains every key. Used by ``grass``, ``grass.cli``, ``grass.provision`` and
``grass.provision.on_premises``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from grass.manifest import metrics, notify, placement, quantities, quotas, resource_fields, values
from grass.manifest.bounds import check_bounds
from grass.manifest.containers import read_runtimes
from grass.manifest.document import Document
from grass.manifest.fields import Fields, Problems
from grass.manifest.isolation import KEYS as ISOLATION_KEYS
from grass.manifest.on_premises import OnPremises, read_on_premises
from grass.manifest.values import Wrong, show
from grass.model.amounts import show_span
from grass.model.mode import LOCAL, ON_PREMISES
from grass.model.policy import CHECK_INTERVAL, COUNT, LEAST_SILENT_AFTER, MOST_KEEP_DAYS, ClusterPolicy
from grass.model.runtime import PROCESSES_ONLY

DEFAULT_NAME = "local"
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
    """Ports of the cluster's servers. None: Grass chooses a free port."""

    api: int | None = None
    node_api: int | None = None


@dataclass(frozen=True)
class Settings(ClusterPolicy):
    """Settings of one cluster.

    ``reserve``: the part of ``resources`` that is reserved for the system. ``low_disk``: bytes of free disk below
    which the node accepts no tasks (None: see ``NodeConfig``). ``labels``, ``topology``, ``runtimes``: of the node.
    ``mounts``: folders of this machine that containers may mount. ``task_redis``: port of a redis for tasks (0: a free
    one; None: there is none).
    """

    name: str = DEFAULT_NAME
    mode: str = LOCAL
    redis: RedisSettings = RedisSettings()
    task_redis: int | None = None
    resources: OfferedResources = OfferedResources()
    ports: PortSettings = PortSettings()
    reserve: dict[str, int] = field(default_factory=dict)
    low_disk: int | None = None
    labels: dict[str, str] = field(default_factory=dict)
    topology: tuple[str, ...] = ()
    runtimes: tuple[str, ...] = PROCESSES_ONLY
    mounts: tuple[str, ...] = ()
    on_premises: OnPremises | None = None
    """The machines of the cluster; None: a cluster on this machine."""
    warnings: tuple[str, ...] = ()


class _Mode(str, Enum):
    LOCAL = LOCAL


class _RedisMode(str, Enum):
    MARO = "MARO"
    CUSTOMIZED = "customized"


_port = values.whole(1, 65535)
_COUNT = values.whole(*COUNT)


def parse_settings(document: Document, *, source: str = "") -> Settings:
    """Parse settings. Raise ManifestError with every problem and its path. ``source``: the name of the file."""
    problems = Problems(source)
    check_bounds(document, problems)
    keys = document if isinstance(document, dict) else {}
    if "components" in keys:
        problems.add("components", "belongs to a job; start this file with `grass job start`")
        problems.check()
    if keys.get("mode") == "process" or "redis_info" in keys or "redis_mode" in keys:
        fields = Fields(document, "", problems, lenient=True)
        settings = _read_maro_process(fields)
    elif keys.get("mode") == "grass/local":
        fields = Fields(document, "", problems, lenient=True)
        settings = _read_maro_local(fields)
    elif keys.get("mode") == ON_PREMISES:
        master = keys.get("master")
        fields = Fields(document, "", problems, lenient=isinstance(master, dict) and "public_ip_address" in master)
        settings = _read_on_premises(fields)
    else:
        fields = Fields(document, "", problems)
        settings = _read_native(fields)
    fields.done()
    problems.check()
    return settings


def _read_native(fields: Fields) -> Settings:
    fields.read("mode", _mode, _Mode.LOCAL)
    fields.problems.check()  # one message: the keys of another mode mean other things
    for key in ISOLATION_KEYS:
        fields.refuse(key, "is for a cluster on several hosts; on one machine, tasks run as you")
    return Settings(
        name=fields.read("name", values.name, DEFAULT_NAME),
        redis=_read_redis(fields),
        task_redis=_read_task_redis(fields),
        keep_agent_alive=fields.read("keep_agent_alive", values.truth, Settings.keep_agent_alive),
        agent_countdown=fields.read("agent_countdown", _COUNT, Settings.agent_countdown),
        resources=_read_resources(fields),
        ports=_read_ports(fields),
        labels=placement.read_labels(fields),
        topology=placement.read_topology(fields),
        runtimes=tuple(each.value for each in read_runtimes(fields)) or Settings.runtimes,
        mounts=tuple(fields.parsed(path, values.absolute_path, item, item) for path, item in fields.items("mounts")),
        **_read_rules(fields),
    )


def _read_rules(fields: Fields) -> dict[str, Any]:  # Any: values of several types, passed on as keyword arguments
    """Read the keys that every kind of cluster has."""
    silent_after, lost_after = _read_silence(fields)
    user_quotas, default_quota = quotas.read_quotas(fields)
    return {
        "parallel_level": fields.read("parallel_level", _COUNT, None),
        "check_interval": fields.read("check_interval", _interval, Settings.check_interval),
        "keep_jobs": fields.read("keep_jobs", _COUNT, Settings.keep_jobs),
        "keep_days": fields.read("keep_days", _days, Settings.keep_days),
        "silent_after": silent_after,
        "lost_after": lost_after,
        "quotas": user_quotas,
        "default_quota": default_quota,
        "notify": notify.read_notify(fields),
        "metrics": metrics.read_metrics(fields),
        "reserve": quotas.read_reserve(fields),
        "low_disk": fields.read("low_disk", quantities.memory, None),
    }


def _read_on_premises(fields: Fields) -> Settings:
    fields.has("mode")
    name = fields.require("name", values.name, DEFAULT_NAME)
    machines = read_on_premises(fields)
    return Settings(
        name=name,
        mode=ON_PREMISES,
        on_premises=machines,
        **_read_rules(fields),
    )


def _mode(value: Any) -> _Mode:
    if isinstance(value, str) and value.startswith(("grass", "k8s")):
        raise Wrong(f"must be local or {ON_PREMISES}; this version does not support the mode {show(value)}")
    return values.one_of(_Mode)(value)


def _interval(value: Any) -> float:
    seconds = quantities.duration(value)
    least, most = CHECK_INTERVAL
    if not least <= seconds <= most:
        raise Wrong(f"must be between {least:g}s and {show_span(most)}, got {show(value)}")
    return seconds


def _days(value: Any) -> float:
    days = quantities.number(value, "a number of days")
    if not 0 < days <= MOST_KEEP_DAYS:
        raise Wrong(f"must be more than 0 and at most {MOST_KEEP_DAYS:g} days, got {show(value)}")
    return days


def _read_silence(fields: Fields) -> tuple[float, float]:
    """Return ``silent_after`` and ``lost_after``, in seconds."""
    silent = fields.read("silent_after", _silence, Settings.silent_after)
    lost = fields.read("lost_after", quantities.duration, max(Settings.lost_after, 2 * silent))
    if lost <= silent:
        fields.problems.add("lost_after", f"must be more than silent_after ({silent:g}s), got {lost:g}s")
    return silent, lost


def _silence(value: Any) -> float:
    seconds = quantities.duration(value)
    if seconds < LEAST_SILENT_AFTER:
        raise Wrong(f"must be at least {LEAST_SILENT_AFTER:g}s (two heartbeats), got {show(value)}")
    return seconds


def _read_redis(fields: Fields) -> RedisSettings:
    section = fields.section("redis")
    if section is None:
        return RedisSettings()
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
    section.done()
    return settings


def _read_task_redis(fields: Fields) -> int | None:
    """Read ``true``, ``false`` or ``{port: PORT}``."""
    if not isinstance(fields.raw("task_redis"), dict):
        return 0 if fields.read("task_redis", values.truth, False) else None
    section = fields.section("task_redis")
    assert section is not None
    port = section.read("port", _port, 0)
    section.done()
    return port


def _read_resources(fields: Fields) -> OfferedResources:
    section = fields.section("resources")
    if section is None:
        return OfferedResources()
    resources = OfferedResources(
        cpu=section.read("cpu", quantities.all_or(quantities.cpu), None),
        memory=section.read("memory", quantities.all_or(quantities.memory), None),
        gpu=section.read("gpu", quantities.all_or(quantities.devices), None),
        disk=section.read("disk", quantities.all_or(quantities.memory), None),
        custom={name: amount for name, amount in resource_fields.read_custom(section).items() if amount},
    )
    section.done()
    return resources


def _read_ports(fields: Fields) -> PortSettings:
    section = fields.section("ports")
    if section is None:
        return PortSettings()
    ports = PortSettings(section.read("api", _port, None), section.read("node_api", _port, None))
    if ports.api is not None and ports.api == ports.node_api:
        section.problems.add(section.at("node_api"), f"{ports.api} is already used by `api`")
    section.done()
    return ports


def _read_maro_process(fields: Fields) -> Settings:
    warnings: list[str] = []
    fields.has("mode")
    customized = fields.read("redis_mode", values.one_of(_RedisMode), _RedisMode.MARO) is _RedisMode.CUSTOMIZED
    redis, task_redis = _read_redis_info(fields, customized, warnings)
    return Settings(
        name=fields.read("name", values.name, MARO_NAME),
        redis=redis,
        task_redis=task_redis,
        parallel_level=fields.read("parallel_level", _COUNT, 1),
        check_interval=fields.read("check_interval", _interval, 60.0),
        keep_agent_alive=fields.read("keep_agent_alive", _flag, Settings.keep_agent_alive),
        agent_countdown=fields.read("agent_countdown", _COUNT, Settings.agent_countdown),
        warnings=tuple(warnings),
    )


def _read_redis_info(fields: Fields, customized: bool, warnings: list[str]) -> tuple[RedisSettings, int | None]:
    """Return the cluster's redis, and the port of the one for tasks. MARO has one for both."""
    section = fields.section("redis_info")
    host, port = "localhost", MARO_REDIS_PORT
    if section is not None:
        host = section.read("host", values.text, host)
        port = section.read("port", _port, port)
        section.done()
    if customized:
        return RedisSettings(embedded=False, host=host, port=port), None
    if host not in ("localhost", "127.0.0.1"):
        here = "with redis_mode MARO, Grass runs the redis for tasks on this machine"
        warnings.append(f"redis_info.host: {show(host)} is ignored; {here}")
    return RedisSettings(), None if section is None else port


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value in (0, 1) and isinstance(value, int):
        return value == 1
    raise Wrong(f"must be 1 or 0, got {show(value)}")


def _read_maro_local(fields: Fields) -> Settings:
    fields.has("mode")
    name = fields.require("name", values.name, DEFAULT_NAME)
    master = fields.section("master")
    if master is None:
        return Settings(name=name)
    task_redis = None
    if (redis := master.section("redis")) is not None:
        task_redis = redis.read("port", _port, MARO_REDIS_PORT)
        redis.done()
    settings = Settings(
        name=name,
        task_redis=task_redis,
        resources=_read_maro_resource(master),
        check_interval=_read_maro_interval(master),
    )
    master.done()
    return settings


def _read_maro_resource(master: Fields) -> OfferedResources:
    section = master.section("resource")
    if section is None:
        return OfferedResources()
    resources = OfferedResources(
        cpu=section.read("cpu", quantities.all_or(quantities.cpu), None),
        memory=section.read("memory", quantities.all_or(quantities.maro_memory), None),
        gpu=section.read("gpu", quantities.all_or(quantities.devices), None),
    )
    section.done()
    return resources


def _read_maro_interval(master: Fields) -> float:
    section = master.section("agents")
    if section is None:
        return 30.0
    interval = section.read("check_interval", _interval, 30.0)
    section.done()
    return interval
