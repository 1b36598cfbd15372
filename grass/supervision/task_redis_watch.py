"""Watcher of the redis for tasks on several hosts: it closes connections that say nothing. Run by the master-agent.

The redis itself has no time limit for a login. Node-agents log in at once; who has no certificate cannot say anything.
Once the redis answers, the file from which it began after a move of the master is removed: it is read only once.
Used by ``master.agent.__main__``.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from grass.config import ClusterConfig, Secrets
from grass.errors import GrassError
from grass.store.accounts import to_close
from grass.store.connect import open_task_redis
from grass.store.embedded import TASK_REDIS_KEPT
from grass.store.redis_server import RedisServer

LOOK = 2.0
"""Seconds between two looks."""

log = logging.getLogger("grass.task-redis-watch")


def watch_task_redis(config: ClusterConfig, secrets: Secrets) -> None:
    """Start the watcher, and return at once."""
    if config.task_redis_server is not None and config.redis.embedded:
        redis, kept = open_task_redis(config, secrets), Path(config.home) / "redis" / TASK_REDIS_KEPT
        threading.Thread(
            target=watch, args=(redis, kept, threading.Event()), name="task-redis-watch", daemon=True
        ).start()


def watch(redis: RedisServer, kept: Path | None, stop: threading.Event) -> None:
    """Look again and again. ``kept``: the file to remove."""
    while not stop.is_set():
        try:
            close_silent(redis)
            if kept is not None:
                kept.unlink(missing_ok=True)  # read by the redis that answers; the next one begins empty
                kept = None
        except GrassError as error:
            log.debug("%s", error)  # it is away, or has the settings of an earlier version
        stop.wait(LOOK)


def close_silent(redis: RedisServer) -> None:
    """Close connections that have sent no command for too long, or that are too many."""
    redis.drop_clients(to_close([client for client in redis.clients() if client.get("cmd") == "NULL"]))
