"""Files of a local cluster, made from its settings: configuration, secrets, keys.

Every step can be repeated, so that the next `grass create` finishes an interrupted one.
"""

from __future__ import annotations

import json
import os
import pwd
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from grass.api import keyring, user_files
from grass.config import ClusterConfig, MasterConfig, NodePolicy, RedisConfig, Secrets, check_writer
from grass.errors import ConflictError, InputError, NotFoundError, UndecodableError
from grass.manifest.local_settings import LocalSettings, RedisSettings
from grass.model.amounts import show_cpu, show_memory
from grass.model.resources import Resources
from grass.node_config import NodeConfig, NodeHome, load_master, own_node
from grass.provision import machine, ports, runtime_folder
from grass.store import embedded
from grass.system.entropy import password

REDIS_USERS = ("admin", "agent", "api", "node")
SHARE_FOLDERS = ("data", "data/jobs")
FOLDERS = ("master", "client", "redis", "log", "data", "data/logs", "data/jobs", "node", "node/attempts")


def existing(cluster_home: Path) -> ClusterConfig | None:
    """Return the cluster's configuration. None: no cluster, or its creation stopped before the file was complete.

    Raises NewerVersionError: a newer Grass wrote it.
    """
    path = cluster_home / "cluster.json"
    try:
        text = path.read_text()
        json.loads(text)
        check_writer(cluster_home.name, text)
        return load_master(path)  # gone, if the cluster is deleted at this moment
    except (FileNotFoundError, json.JSONDecodeError):
        return None


def design(settings: LocalSettings, cluster_home: Path, before: ClusterConfig | None) -> ClusterConfig:
    """Return the configuration for ``settings``. Omitted values stay as ``before``, or are chosen.

    Raises ConflictError for a port that is taken, and for a redis other than before: the cluster's state is not there.
    """
    redis = _redis(settings.redis, cluster_home)
    if before is not None and redis != before.redis:
        raise ConflictError(
            f"cluster {settings.name} already exists, and its state is in another redis; "
            f"`grass delete {settings.name}` removes it"
        )
    home = own_node(before) if before is not None else None
    node = home.node if home is not None else NodeConfig(name=settings.own_node)
    master = before.master if before else MasterConfig()
    api_port = settings.ports.api or master.api_port or _free(master.api_host, cluster_home, settings, set())
    if settings.own_node:
        node = _own_node(settings, cluster_home, node, api_port)
    tasks_redis = _task_redis(settings, before, cluster_home, {api_port, node.api_port})
    config = ClusterConfig(
        name=settings.name,
        mode=settings.mode,
        home=str(cluster_home),
        runtime_dir=str(runtime_folder.choose(cluster_home)),
        redis=redis,
        task_redis=tasks_redis,
        master=replace(
            master,
            **settings.policy(),
            api_host=settings.ports.host or master.api_host,
            api_port=api_port,
            public_url=settings.ports.url,
            pod=settings.ports.pod,
            own_node=settings.own_node or None,
            nodes_on_client=bool(settings.own_node),
            node_policy=NodePolicy(
                reserve=settings.reserve, low_disk=settings.low_disk, topology_command=settings.topology_command
            ),
        ),
    )
    return NodeHome.of(config, node) if settings.own_node else config


def _own_node(settings: LocalSettings, cluster_home: Path, node: NodeConfig, api_port: int) -> NodeConfig:
    """Return the node that is this machine. ``node``: as it was before, or without what the settings say."""
    offered = machine.offered(settings.resources)
    _check_reserve(settings, offered)
    return replace(
        node,
        api_port=settings.ports.node_api or node.api_port or _free(node.address, cluster_home, settings, {api_port}),
        cpu=offered.cpu,
        memory=offered.memory,
        gpu=offered.gpu,
        disk=settings.resources.disk,
        custom=settings.resources.custom,
        reserve=settings.reserve,
        low_disk=settings.low_disk,
        topology_command=settings.topology_command,
        labels=settings.labels,
        path=settings.topology,
        runtimes=settings.runtimes,
        mounts=settings.mounts,
    )


def _task_redis(settings: LocalSettings, before: ClusterConfig | None, cluster_home: Path, taken: set[int]) -> int:
    """Return the port of the redis for tasks; 0: none is wanted."""
    if settings.task_redis is None:
        return 0
    if not settings.redis.embedded:
        raise InputError(
            "task_redis: needs the embedded redis; with a redis of your own, name its port in `env` of jobs"
        )
    kept = before.task_redis if before else 0
    return settings.task_redis or kept or _free("127.0.0.1", cluster_home, settings, taken)


def _check_reserve(settings: LocalSettings, offered: Resources) -> None:
    for name, show in (("cpu", show_cpu), ("memory", show_memory)):
        kept, there = settings.reserve.get(name, 0), offered.amount(name)
        if kept and kept >= there:
            raise InputError(
                f"reserve.{name}: {show(kept)} of {show(there)} kept back for the system leaves nothing for tasks; "
                "nothing was changed"
            )


def _free(host: str, cluster_home: Path, settings: LocalSettings, taken: set[int]) -> int:
    asked = {port for port in (settings.ports.api, settings.ports.node_api) if port}
    return ports.free(host, cluster_home, taken | asked)


def _redis(settings: RedisSettings, cluster_home: Path) -> RedisConfig:
    if settings.embedded:
        return RedisConfig(embedded=True, socket=str(runtime_folder.choose(cluster_home) / "redis.sock"))
    return RedisConfig(embedded=False, host=settings.host, port=settings.port, accounts=False)


def check_ports(config: ClusterConfig) -> None:
    """Check the ports of a stopped cluster.

    Raises ConflictError, naming the port's user, when a port is taken. Raises InputError: no loopback.
    """
    servers = [("api", config.master.api_host, config.master.api_port)]
    if (own := own_node(config)) is not None:
        servers.append(("node_api", own.node.address, own.node.api_port))
    for host in {host for _, host, _ in servers}:
        ports.check_address(host)
    for key, host, port in servers:
        if not ports.available(host, port):
            raise ConflictError(
                f"port {port}, the `{key}` port of cluster {config.name}, is taken by {ports.holder(port)}; "
                f"end that, or give the cluster another one: `ports: {{{key}: NUMBER}}` in a settings file"
            )
    if config.task_redis and not ports.available("127.0.0.1", config.task_redis):
        raise ConflictError(
            f"port {config.task_redis}, of the redis for tasks of cluster {config.name}, is taken by "
            f"{ports.holder(config.task_redis)}; end that, or choose another one: `task_redis: {{port: NUMBER}}`"
        )


def make_folders(config: ClusterConfig) -> None:
    home = Path(config.home)
    try:
        _make_folders(home)
    except OSError as error:
        raise InputError(
            f"cannot write {error.filename}: {error.strerror}; set GRASS_HOME to a folder that you can write to"
        ) from error
    runtime_folder.make(Path(config.runtime_dir))


def _make_folders(home: Path) -> None:
    for folder in (home.parent.parent, home.parent, home, *(home / name for name in FOLDERS)):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in SHARE_FOLDERS:  # containers see only the share, and may run as another user
        (home / name).chmod(0o755)


def make_secrets(config: ClusterConfig, redis_password: str | None) -> Secrets:
    """Create the secrets, or keep existing ones. ``redis_password``: password of the user's own redis."""
    home = Path(config.home)
    try:
        secrets = Secrets.load(home)
    except (FileNotFoundError, UndecodableError):
        secrets = Secrets({user: password() for user in REDIS_USERS}, password())
    if not config.redis.embedded and redis_password is not None:
        secrets = replace(secrets, redis=dict.fromkeys(REDIS_USERS, redis_password))
    elif not config.redis.embedded and len(set(secrets.redis.values())) > 1:
        secrets = replace(secrets, redis=dict.fromkeys(REDIS_USERS, ""))
    secrets.save(home)
    return secrets


def make_redis(config: ClusterConfig, secrets: Secrets) -> list[str]:
    """Write the files of the embedded redis, and return the command that runs it."""
    assert config.redis.socket is not None
    server = embedded.find_server()
    files = embedded.write_files(
        Path(config.home) / "redis",
        server=server,
        socket=Path(config.redis.socket),
        prefix=config.key_prefix,
        node=config.master.own_node or "",
        passwords=secrets.redis,
    )
    return [str(server.path), str(files.conf)]


def make_keys(config: ClusterConfig) -> None:
    """Create the keys of a new cluster: both pairs in parallel, because one takes a tenth of a second or several."""
    master, client = config.master_dir, Path(config.home) / "client"
    if (master / "key.pem").exists():
        mend_client(config)
        return
    with ThreadPoolExecutor(2) as pool:
        making = pool.submit(keyring.create_master_key, master), pool.submit(keyring.create_user_key, client)
        master_key, user_key = (key.result() for key in making)
    _register(config, user_key, master_key)


def mend_client(config: ClusterConfig) -> bool:
    """Create and register a new key of this user if a client file is missing or damaged. Return whether one was.

    The master keeps its key, so the cluster may run meanwhile.
    """
    client = Path(config.home) / "client"
    try:
        keys = keyring.load_client(client)
        keys.private(), keys.master()
    except (InputError, NotFoundError):
        _register(config, keyring.create_user_key(client), keyring.master_key(config.master_dir))
        return True
    return False


def _register(config: ClusterConfig, user_key: keyring.Jwk, master_key: keyring.Jwk) -> None:
    user = user_name()
    user_files.register_user(config.master_dir, user, keyring.Role.ADMIN, user_key)
    profile = keyring.Profile(config.name, config.master.url, user, str(user_key["kid"]))
    keyring.save_profile(Path(config.home) / "client", profile, master_key)


def refresh_profile(config: ClusterConfig) -> None:
    """Update the client's profile after the port changed."""
    client = Path(config.home) / "client"
    profile = keyring.load_profile(client)
    url = config.master.url
    if profile.url != url:
        master = json.loads((client / "master.pub.json").read_text())
        keyring.save_profile(client, replace(profile, url=url), master)


def user_name() -> str:
    """Return the login name, or the uid if there is no name."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid{os.getuid()}"
