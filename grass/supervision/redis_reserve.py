"""Keeper of the reserve of redis' disk (``grass.store.reserve``): a thread of the master-agent.

While the disk is full, redis must not rewrite its file: it would go on in a new one, which has no reserve. Only the
cluster's own redis on this machine is cared for. Used by ``master.agent.__main__``.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from grass.config import ClusterConfig, Secrets
from grass.errors import GrassError
from grass.store import reserve
from grass.store.connect import open_backend
from grass.store.redis_server import RedisServer
from grass.system import clock, disk

LOOK = 1.0
"""Seconds between two looks."""

log = logging.getLogger("grass.redis-reserve")


def keep_reserve(config: ClusterConfig, secrets: Secrets) -> None:
    """Start the keeper, and return at once."""
    if config.redis.embedded:
        keeper = Keeper(Path(config.home) / "redis", open_backend(config, secrets, "admin"))
        threading.Thread(target=keeper.run, name="redis-reserve", daemon=True).start()


class Keeper:
    """The keeper of one reserve. ``folder``: redis' data. ``redis``: a connection as ``admin``."""

    def __init__(self, folder: Path, redis: RedisServer, is_full: Callable[[Path], bool] = disk.is_full) -> None:
        self._folder = folder
        self._redis = redis
        self._is_full = is_full
        self._rewrites: bool | None = None
        """What redis was told last."""
        self._failed = False

    def run(self) -> None:
        while True:
            self.look()
            clock.sleep(LOOK)

    def look(self) -> None:
        """Take the reserve when there is space, and let redis rewrite its file only then."""
        rewrites = not self._is_full(self._folder)
        try:
            if rewrites != self._rewrites:
                self._redis.allow_rewrites(rewrites)
                self._rewrites = rewrites
            if rewrites:
                reserve.keep(self._folder)
        except GrassError:
            return  # redis is away; the next look tries again
        except OSError as error:
            if not self._failed:
                log.warning("redis' disk: no space can be kept for when it is full (%s)", error)
            self._failed = True
