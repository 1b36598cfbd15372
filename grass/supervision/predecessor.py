"""Fences the masters that this one replaced, when their machines come back. Run by the master-agent.

One did not answer the restore, so its units could not be disabled: its daemons start again, and so does its redis. This
master knows the password of that redis, and both have certificates of one authority. It removes all other users: then
nobody takes or decides anything there. Nothing has to be known of it on the other machine, whatever Grass runs there.

There may be several: a cluster may be restored elsewhere again before the first fence was delivered. The one that was
restored last has the highest term, and no other fences it.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from grass.config import ClusterConfig, Secrets
from grass.errors import GrassError
from grass.lines import lines_of
from grass.network_address import host_and_port, network_address
from grass.store.connect import open_backend
from grass.store.keys import RECORD, Keys
from grass.store.redis_backend import RedisBackend
from grass.system import clock
from grass.system.atomic_file import replace_file
from grass.wire.backup import RESTORED

PREDECESSOR = "predecessor"
"""File of a master: host and port of the redis of each one before, line by line, until that is fenced."""
_AGAIN = 5.0
_PATIENCE = 3.0
_ADMIN = "admin"

log = logging.getLogger(__name__)


def start_fencing(config: ClusterConfig) -> None:
    """Look again and again, in a thread, until all masters before are fenced. Most masters have none."""
    if listed(Path(config.home)):
        threading.Thread(target=_run, args=(config,), name="predecessor", daemon=True).start()


def listed(home: Path) -> tuple[str, ...]:
    """Return the addresses of the redis of the masters before, of the master whose folder this is."""
    try:
        return tuple(lines_of((home / PREDECESSOR).read_text()))
    except FileNotFoundError:
        return ()


def write(home: Path, addresses: Iterable[str], config: ClusterConfig) -> None:
    """List the masters before. ``config``: of the new one, which may be where one of them was."""
    own = network_address(config.redis.host or "", config.redis.port or 0)
    left = [each for each in dict.fromkeys(addresses) if each and each != own]
    if left:
        replace_file(home / PREDECESSOR, "".join(f"{each}\n" for each in left))
    else:
        (home / PREDECESSOR).unlink(missing_ok=True)


def _run(config: ClusterConfig) -> None:
    said: dict[str, str] = {}
    home = Path(config.home)
    while True:
        try:
            addresses = listed(home)
        except OSError as error:  # such as no free file descriptor
            log.error("cannot read which masters this one replaced; trying again: %s", error)
            clock.sleep(_AGAIN)
            continue
        if not addresses:
            return
        for address in addresses:
            try:
                host, port = host_and_port(address)
                if answers(host, port, _PATIENCE):
                    log.warning("%s", fence(config, host, port))
                    write(home, (each for each in listed(home) if each != address), config)
            except (GrassError, OSError, ValueError) as error:
                if str(error) != said.get(address):
                    said[address] = str(error)
                    log.error("a master that this one replaced is not fenced; trying again: %s", error)
        clock.sleep(_AGAIN)


def fence(config: ClusterConfig, host: str, port: int) -> str:
    """Remove all users of the redis at this address but ``admin``, if it is that of an earlier master of this cluster.

    Return what was done. Raises GrassError.
    """
    secrets, key = Secrets.load(config.home), Keys(config.key_prefix).restored
    there = replace(config, redis=replace(config.redis, embedded=False, socket=None, host=host, port=port))
    with (
        closing(open_backend(config, secrets, _ADMIN)) as own,
        closing(open_backend(there, secrets, _ADMIN)) as other,
    ):
        if other.run_id() == own.run_id():
            return f"the redis at {host} port {port} is this master's own"
        if term_of(other, key) > term_of(own, key):
            return f"the redis at {host} port {port} is that of a later master, which replaced this one"
        users = [name for name in other.users() if name not in (_ADMIN, "default")]
        if users:
            other.delete_users(users)
    return f"the old master at {host} came back and is fenced: its redis accepts none of {len(users)} users any more"


def term_of(backend: RedisBackend, key: str) -> int:
    record = backend.hget(key, RECORD)
    return RESTORED.decode(record).term if record else 0


def answers(host: str, port: int, seconds: float) -> bool:
    """Return whether something accepts connections there. Also asked before a restore."""
    try:
        with socket.create_connection((host, port), seconds):
            return True
    except OSError:
        return False
