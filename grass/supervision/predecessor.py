"""Fences the master that this one replaced, when its machine comes back. Run by the master-agent.

It did not answer the restore, so its units could not be disabled: its daemons start again, and so does its redis. This
master knows the password of that redis, and both have certificates of one authority. It removes all other users: then
nobody takes or decides anything there. Nothing has to be known of it on the other machine, whatever Grass runs there.
"""

from __future__ import annotations

import logging
import socket
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from grass.config import ClusterConfig, Secrets
from grass.errors import GrassError
from grass.network_address import host_and_port
from grass.store.connect import open_backend
from grass.store.keys import RECORD, Keys
from grass.system import clock

PREDECESSOR = "predecessor"
"""File of a master: host and port of the redis of the one before, until that is fenced."""
_AGAIN = 5.0
_PATIENCE = 3.0
_ADMIN = "admin"

log = logging.getLogger(__name__)


def start_fencing(config: ClusterConfig) -> None:
    """Look again and again, in a thread, until the master before is fenced. Most masters have none."""
    if _file(config).exists():
        threading.Thread(target=_run, args=(config,), name="predecessor", daemon=True).start()


def _run(config: ClusterConfig) -> None:
    said = ""
    while (path := _file(config)).exists():
        try:
            host, port = host_and_port(path.read_text().strip())
            if answers(host, port, _PATIENCE):
                log.warning("%s", fence(config, host, port))
                path.unlink(missing_ok=True)
                return
        except (GrassError, OSError, ValueError) as error:
            if str(error) != said:
                said = str(error)
                log.error("the master that this one replaced is not fenced; trying again: %s", said)
        clock.sleep(_AGAIN)


def fence(config: ClusterConfig, host: str, port: int) -> str:
    """Remove all users of the redis at this address but ``admin``, if it is that of another master of this cluster.

    Return what was done. Raises GrassError.
    """
    secrets, key = Secrets.load(config.home), Keys(config.key_prefix).restored
    there = replace(config, redis=replace(config.redis, embedded=False, socket=None, host=host, port=port))
    with (
        closing(open_backend(config, secrets, _ADMIN)) as own,
        closing(open_backend(there, secrets, _ADMIN)) as other,
    ):
        if other.hget(key, RECORD) == own.hget(key, RECORD):
            return f"the redis at {host} port {port} is this master's own"
        users = [name for name in other.users() if name not in (_ADMIN, "default")]
        if users:
            other.delete_users(users)
    return f"the old master at {host} came back and is fenced: its redis accepts none of {len(users)} users any more"


def answers(host: str, port: int, seconds: float) -> bool:
    """Return whether something accepts connections there. Also asked before a restore."""
    try:
        with socket.create_connection((host, port), seconds):
            return True
    except OSError:
        return False


def _file(config: ClusterConfig) -> Path:
    return Path(config.home) / PREDECESSOR
