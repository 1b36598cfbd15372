"""Watcher of the redis for tasks on several hosts: it closes connections that say nothing. Run by the master-agent.

The redis itself has no time limit for a login. Node-agents log in at once; who has no certificate cannot say anything.
Used by ``master.agent.__main__``.
"""

from __future__ import annotations

import logging
import threading

from grass.config import ClusterConfig, Secrets
from grass.errors import GrassError
from grass.store.accounts import to_close
from grass.store.connect import open_task_redis
from grass.store.redis_server import RedisServer
from grass.system import clock

LOOK = 2.0
"""Seconds between two looks."""

log = logging.getLogger("grass.task-redis-watch")


def watch_task_redis(config: ClusterConfig, secrets: Secrets) -> None:
    """Start the watcher, and return at once."""
    if config.task_redis_server is not None and config.redis.embedded:
        redis = open_task_redis(config, secrets)
        threading.Thread(target=_watch, args=(redis,), name="task-redis-watch", daemon=True).start()


def _watch(redis: RedisServer) -> None:
    while True:
        try:
            close_silent(redis)
        except GrassError as error:
            log.debug("%s", error)  # it is away, or has the settings of an earlier version
        clock.sleep(LOOK)


def close_silent(redis: RedisServer) -> None:
    """Close connections that have sent no command for too long, or that are too many."""
    redis.drop_clients(to_close([client for client in redis.clients() if client.get("cmd") == "NULL"]))
