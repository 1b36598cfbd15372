"""Administration of a redis server: users, connections, memory, figures. Nothing here reads or writes the keys
of a cluster. Most calls need the rights of the user ``admin``.

Used by ``connect`` and ``redis_backend``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from redis.exceptions import ResponseError

from grass.errors import NotAllowedError
from grass.lines import lines_of
from grass.store.redis_link import RedisLink, translated

REWRITE_AT = 100
"""Percent by which the file has grown when it is rewritten, as in ``deploy/redis/redis.conf``."""
_YEAR = 31_536_000
_DROPPED_AT_ONCE = 500
_FIGURES = (
    *("used_memory", "maxmemory", "connected_clients", "blocked_clients", "instantaneous_ops_per_sec"),
    *("aof_current_size", "aof_pending_bio_fsync", "aof_delayed_fsync", "evicted_keys", "uptime_in_seconds"),
)
"""Fields of INFO."""


@dataclass(frozen=True)
class Replica:
    """A server that follows. ``offset``: bytes of writes that it has confirmed."""

    offset: int
    online: bool


@dataclass(frozen=True)
class Replication:
    """How a server stands to others. ``offset``: bytes of writes that it has. ``linked``: a replica: whether it is
    connected to its master."""

    is_master: bool
    offset: int
    replicas: tuple[Replica, ...] = ()
    linked: bool = False


class RedisServer(RedisLink):
    """The server behind the keys."""

    def read_certificates(self) -> None:
        """Have the server use its renewed certificate for new connections. Needs the user ``admin``."""
        with translated():
            files = self._redis.config_get("tls-*-file")
            words = [word for name in ("tls-cert-file", "tls-key-file") for word in (name, files[name])]
            self._ask("CONFIG", "SET", *words)

    def save_at_end(self, folder: Path) -> bool:
        """Have a redis that keeps nothing on disk write what it has when it is stopped. Return False if it would write
        elsewhere than in ``folder``. Needs the user ``admin``."""
        with translated():
            if self._redis.config_get("dir")["dir"] != str(folder):
                return False
            self._ask("CONFIG", "SET", "save", f"{_YEAR} 1")  # without any, it would just end
        return True

    def set_user(self, name: str, rules: list[str]) -> None:
        """Create or replace a user and save it in the server's ACL file. Needs the rights of ``admin``."""
        self._check_size()
        with translated():
            self._ask("ACL", "SETUSER", name, *rules)
            self._ask("ACL", "SAVE")

    def delete_users(self, names: list[str]) -> None:
        """Delete users and close their connections. Unknown names are ignored."""
        with translated():
            self._ask("ACL", "DELUSER", *names)
            self._ask("ACL", "SAVE")

    def users(self) -> list[str]:
        with translated():
            return cast("list[str]", self._ask("ACL", "USERS"))

    def clients(self) -> list[dict[str, str]]:
        """Return the server's connections, as ``CLIENT LIST`` describes them."""
        with translated():
            lines = lines_of(str(self._ask("CLIENT", "LIST")))
        return [dict(word.partition("=")[::2] for word in line.split()) for line in lines]

    def drop_clients(self, clients: Sequence[str]) -> None:
        """Close connections by their ids. One that is gone already is ignored."""
        for start in range(0, len(clients), _DROPPED_AT_ONCE):
            with translated():
                self._ask_all([("CLIENT", "KILL", "ID", each) for each in clients[start : start + _DROPPED_AT_ONCE]])

    def allow_rewrites(self, allowed: bool) -> None:
        """Let the server rewrite its append-only file by itself, or not. Needs the user ``admin``."""
        with translated():
            self._ask("CONFIG", "SET", "auto-aof-rewrite-percentage", REWRITE_AT if allowed else 0)

    def used_memory(self) -> int:
        """Return the bytes that the server uses."""
        with translated():
            return int(self._redis.info("memory")["used_memory"])

    def version(self) -> tuple[int, ...]:
        with translated():
            said = str(self._redis.info("server")["redis_version"])
            return tuple(int(part) for part in said.split("."))

    def run_id(self) -> str:
        """Return the id of this run of the server: no two servers have the same."""
        with translated():
            return str(self._redis.info("server")["run_id"])

    def figures(self) -> dict[str, float]:
        """Return those of the server's own figures that are worth watching: memory, clients, commands, its file."""
        with translated():
            info = self._redis.info()
        return {name: float(info[name]) for name in _FIGURES if isinstance(info.get(name), (int, float))}

    def replication(self) -> Replication:
        """Return who follows this server, or whom it follows."""
        with translated():
            info = self._redis.info("replication")
        found = [each for name, each in info.items() if re.fullmatch(r"slave\d+", name)]
        replicas = tuple(Replica(int(each["offset"]), each["state"] == "online") for each in found)
        offset = info.get("slave_repl_offset", info["master_repl_offset"])
        return Replication(info["role"] == "master", int(offset), replicas, info.get("master_link_status") == "up")

    def writes_first_log(self) -> bool:
        """Return whether the server has not all of its data in its log yet: a replica that began anew has it in memory
        only, and must not be ended."""
        with translated():
            info = self._redis.info("persistence")
        return bool(info["aof_rewrite_in_progress"] or info["aof_rewrite_scheduled"])

    def promote(self) -> None:
        """Make a replica a master. Needs the user ``admin``."""
        with translated():
            self._ask("REPLICAOF", "NO", "ONE")

    def require_replicas(self, count: int) -> None:
        """Have the server itself refuse all writes while fewer replicas have answered within seconds. Needs the user
        ``admin``."""
        with translated():
            self._ask("CONFIG", "SET", "min-replicas-to-write", str(count))

    def durability(self) -> dict[str, str]:
        """Return the server's settings ``appendonly`` and ``appendfsync``; empty if it refuses to report them."""
        try:
            with translated():
                return cast("dict[str, str]", self._redis.config_get("append*"))
        except (NotAllowedError, ResponseError):
            return {}
