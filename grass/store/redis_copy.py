"""A copy of a cluster's redis as it is at one moment: fetched from the running server, and loaded into another one.

``fetch`` asks for it as a replica would: the server forks, and the child sends what it sees, while the server goes on.
``CopyServer`` is the other server, without users and without connections to anybody. Used by
``grass.provision.backup``.
"""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from grass.errors import GrassError, UnreachableError
from grass.store.keys import RECORD, Keys
from grass.store.redis_link import translated
from grass.store.redis_server import RedisServer
from grass.system import clock

_SILENCE = 60.0
"""Seconds without a byte, also while the server waits for another child of its own, until the call fails."""
_PIECE = 1 << 20
_AT_ONCE = 500
_REWRITE_PATIENCE = 600.0


class CannotCopyError(GrassError):
    """The server refuses to send a copy, or another server cannot load it."""


def fetch(path: str, user: str, password: str, write: Callable[[bytes], object]) -> None:
    """Write redis' own dump of all keys, as they are at one moment. Raises UnreachableError and CannotCopyError."""
    try:
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(_SILENCE)
            try:
                link.connect(path)
            except OSError as error:
                raise UnreachableError(f"redis does not answer: {error}") from error
            with link.makefile("rb") as answers:
                for command in (("AUTH", user, password), ("REPLCONF", "rdb-only", "1"), ("REPLCONF", "capa", "eof")):
                    link.sendall(_packed(*command))
                    said = answers.readline()
                    if command[0] == "AUTH" and not said.startswith(b"+"):
                        raise CannotCopyError(f"redis refuses this user: {said.decode(errors='replace').strip()}")
                link.sendall(_packed("SYNC"))
                _receive(answers, write)
    except TimeoutError as error:
        raise UnreachableError(f"redis sent nothing for {_SILENCE:g} s; try again") from error
    except ConnectionError as error:
        raise UnreachableError(f"redis does not answer: {error}") from error


def _packed(*words: str) -> bytes:
    parts = [word.encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


def _receive(answers: BinaryIO, write: Callable[[bytes], object]) -> None:
    line = answers.readline()
    while line == b"\n":  # the server is still busy, and alive
        line = answers.readline()
    kind, said = line[:1], line[1:].strip()
    if kind != b"$":
        why = said.decode(errors="replace") or "it closed the connection"
        raise CannotCopyError(f"redis sends no copy of its keys: {why}")
    if said.startswith(b"EOF:"):
        _until(answers, said[4:], write)
        return
    left = int(said)
    while left:
        data = answers.read(min(left, _PIECE))
        if not data:
            raise UnreachableError("redis ended while it sent a copy of its keys; try again")
        write(data)
        left -= len(data)


def _until(answers: Any, mark: bytes, write: Callable[[bytes], object]) -> None:
    """Write up to the mark: the server does not know the length before. Any: ``BinaryIO`` lacks ``read1``."""
    kept = b""
    while not kept.endswith(mark):
        data = answers.read1(_PIECE)
        if not data:
            raise UnreachableError("redis ended while it sent a copy of its keys; try again")
        kept += data
        done = max(0, len(kept) - len(mark))
        write(kept[:done])
        kept = kept[done:]


class CopyServer(RedisServer):
    """A server that has loaded a copy, and serves only this process. It must allow the command DEBUG."""

    def ping(self) -> None:
        """Raises UnreachableError: it does not run, or it is loading."""
        with translated():
            self._ask("PING")

    def keys(self) -> Iterator[str]:
        """Yield the names of the keys that do not expire, in order."""
        with translated():
            names = sorted(set(self._redis.scan_iter(count=10_000)))
            for at in range(0, len(names), _AT_ONCE):
                some = names[at : at + _AT_ONCE]
                expires = self._ask_all([("PTTL", name) for name in some])
                yield from (name for name, left in zip(some, expires, strict=True) if left == -1)

    def digest(self) -> tuple[int, str]:
        """Return the number of the keys that do not expire, and one digest of their names and contents."""
        found, names = hashlib.sha256(), list(self.keys())
        for at in range(0, len(names), _AT_ONCE):
            some = names[at : at + _AT_ONCE]
            with translated():
                each = self._ask_all([("DEBUG", "DIGEST-VALUE", name) for name in some])
            for name, value in zip(some, each, strict=True):
                if isinstance(value, Exception):
                    raise value
                found.update(f"{name} {value[0]}\n".encode())
        return len(names), found.hexdigest()

    def jobs(self, keys: Keys) -> int:
        with translated():
            return int(self._ask("HLEN", keys.jobs))

    def restored(self, keys: Keys) -> str:
        """Return the record of the last restore; empty: there was none."""
        with translated():
            return str(self._ask("HGET", keys.restored, RECORD) or "")

    def horizon(self, keys: Keys) -> float:
        with translated():
            return float(self._ask("GET", keys.horizon) or 0.0)

    def settle(self, keys: Keys, restored: str, horizon: float) -> None:
        """Make the copy one that a restored cluster begins with: nobody is logged in, no request from before
        ``horizon`` is accepted, and the daemons learn from ``restored`` that it is a copy. The horizon never goes back:
        the clock of this machine may be behind that of the old master."""
        horizon = max(horizon, self.horizon(keys))
        with translated():
            for name in self._redis.scan_iter(match=keys.session("*"), count=10_000):
                self._ask("DEL", name)
            self._ask("SET", keys.horizon, repr(horizon))
            self._ask("HSET", keys.restored, RECORD, restored)

    def write_log(self) -> None:
        """Write everything into an append-only file, and end the server."""
        with translated():
            self._ask("CONFIG", "SET", "appendonly", "yes")
            until = clock.steady() + _REWRITE_PATIENCE
            while not _is_written(info := self._redis.info("persistence")):
                if info["aof_last_bgrewrite_status"] != "ok" or clock.steady() > until:
                    raise CannotCopyError("redis could not write its append-only file; its disk may be full")
                clock.sleep(0.01)
        self.end()

    def end(self) -> None:
        with translated():
            try:
                self._redis.shutdown(nosave=True)
            except ConnectionError:
                return


def _is_written(info: Any) -> bool:
    """Any: redis-py's parsed reply."""
    return not (info["aof_rewrite_in_progress"] or info["aof_rewrite_scheduled"]) and bool(info["aof_enabled"])


def configuration(folder: Path, path: Path, version: tuple[int, ...]) -> str:
    """Return the configuration of a server for a copy. ``folder`` has the copy as ``dump.rdb``. ``path``: its
    socket."""
    debug = "enable-debug-command local\n" if version >= (7, 0) else ""
    return (
        f'port 0\nunixsocket "{path}"\nunixsocketperm 700\ndir "{folder}"\ndbfilename dump.rdb\nsave ""\n'
        f'appendonly no\naof-use-rdb-preamble yes\ndatabases 1\ndaemonize no\nloglevel notice\nlogfile ""\n{debug}'
    )
