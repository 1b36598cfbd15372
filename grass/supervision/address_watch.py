"""Ends a daemon of a node when its master's address changes in ``cluster.json``: systemd starts it again, with that.

Used by ``node.agent.__main__`` and ``node.api.server``.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from grass.config import ClusterConfig
from grass.errors import GrassError
from grass.system import clock

_LOOK = 1.0

log = logging.getLogger(__name__)


def watch_address(config: ClusterConfig, end: Callable[[], object]) -> None:
    """Look each second, in a thread, unless the master is this machine. ``end``: called once."""
    if config.redis.host is None:
        return
    threading.Thread(target=_run, args=(config, end), name="address", daemon=True).start()


def _run(config: ClusterConfig, end: Callable[[], object]) -> None:
    known = config.path.stat().st_mtime_ns
    while True:
        clock.sleep(_LOOK)
        try:
            if (now := config.path.stat().st_mtime_ns) == known:
                continue
            known, found = now, ClusterConfig.load(config.path)
        except (GrassError, OSError):
            continue
        if (found.redis.host, found.redis.port) != (config.redis.host, config.redis.port):
            log.warning("the master is at %s now; starting again", found.address)
            end()
            return
