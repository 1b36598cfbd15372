"""Opens a cluster's store as one of its redis users. Called by the daemons and by ``grass.provision``."""

from __future__ import annotations

from pathlib import Path

from grass.config import ClusterConfig, Secrets
from grass.network_address import host_and_port
from grass.store.embedded import node_user
from grass.store.keys import Keys
from grass.store.redis_backend import RedisBackend
from grass.store.redis_server import RedisServer
from grass.store.standby_gate import Followed, StandbyGate
from grass.tls_files import MASTER, identity


def open_task_redis(config: ClusterConfig, secrets: Secrets) -> RedisServer:
    """Connect to the redis for tasks of several hosts, on the master, as ``admin``."""
    assert config.task_redis_server is not None
    host, port = host_and_port(config.task_redis_server)
    tls = (config.tls_files, identity(config.name, MASTER)) if config.redis.tls else None
    return RedisServer(tls=tls, host=host, port=port, username="admin", password=secrets.redis["admin"])


def open_backend(config: ClusterConfig, secrets: Secrets, user: str, node: str = "") -> RedisBackend:
    """Connect as ``user``: ``admin``, ``agent``, ``api`` or ``node``. ``node``: the name of that node. A redis of your
    own has one password for all."""
    password = secrets.redis.get(user) or None
    name = node_user(node) if user == "node" else user
    redis = config.redis
    if redis.embedded:
        folder = Path(config.home) / "redis"
        of_users = user == "api"
        followed = config.standby if user in ("agent", "api") else None
        gate = None
        if followed is not None:
            keys, witness = Keys(config.key_prefix), bool(followed.witness)
            gate = Followed(
                StandbyGate(needed=followed.needed, witness=witness), keys.alone, keys.consent if witness else ""
            )
        return RedisBackend(
            folder, of_users=of_users, standby=gate, unix_socket_path=redis.socket, username=name, password=password
        )
    tls = (config.tls_files, identity(config.name, MASTER)) if redis.tls else None
    login = name if redis.accounts else None
    return RedisBackend(tls=tls, host=redis.host, port=redis.port, username=login, password=password)
