"""Opening the store of a cluster as one of its redis users."""

from __future__ import annotations

from grass.config import ClusterConfig, Secrets
from grass.store.redis_backend import RedisBackend


def open_backend(config: ClusterConfig, secrets: Secrets, user: str) -> RedisBackend:
    """``user`` is ``admin``, ``agent``, ``api`` or ``node``; a redis of your own has one password for all."""
    if config.redis.embedded:
        return RedisBackend(unix_socket_path=config.redis.socket, username=user, password=secrets.redis[user])
    return RedisBackend(host=config.redis.host, port=config.redis.port, password=secrets.redis.get(user) or None)
