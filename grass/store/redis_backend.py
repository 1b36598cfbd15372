"""A ``Backend`` over a redis (or valkey) server. The only module that imports the redis client."""

from __future__ import annotations

import errno
import os
import re
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import msgpack
import redis
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ConnectionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
    TimeoutError,
)
from redis.retry import Retry

from grass import disk
from grass.errors import NotAllowedError, StoreFullError, StoreRefusesError, UnreachableError
from grass.store.backend import Entry, Guard, Op
from grass.tls import wrap
from grass.tls_files import TlsFiles

_APPLY = """
local step = cmsgpack.unpack(ARGV[1])
for i, guard in ipairs(step[1]) do
  local kind, key, value = guard[1], guard[2], guard[3]
  if kind == 'equals' then
    if redis.call('GET', key) ~= value then return i end
  elseif kind == 'below' then
    if tonumber(redis.call('GET', key) or '0') >= tonumber(value) then return i end
  elseif kind == 'no-field' then
    if redis.call('HEXISTS', key, value) == 1 then return i end
  elseif kind == 'no-key' then
    if redis.call('EXISTS', key) == 1 then return i end
  end
end
for _, op in ipairs(step[2]) do
  if op[1] == 'XADD' then
    if op[3] == 0 then
      redis.call('XADD', op[2], '*', unpack(op, 4))
    else
      redis.call('XADD', op[2], 'MAXLEN', '~', op[3], '*', unpack(op, 4))
    end
  elseif op[1] == 'HSWAP' then
    if redis.call('HGET', op[2], op[3]) == op[4] then
      if op[5] == '' then redis.call('HDEL', op[2], op[3]) else redis.call('HSET', op[2], op[3], op[5]) end
    end
  else
    redis.call(unpack(op))
  end
end
return 0
"""

_SIZES = """
local found = {}
for i, key in ipairs(KEYS) do
  local entries = redis.call('XLEN', key)
  found[#found + 1] = entries
  found[#found + 1] = entries > 0 and redis.call('MEMORY', 'USAGE', key) or 0
end
return found
"""

_MOST_ARGUMENTS = 2_000
"""Lua cannot unpack much longer lists; longer writes are split into several of the same step."""

_SCANNED = 2_000
"""Keys that the server looks at for one answer of SCAN."""
_PIECE = 500
"""Fields of a large hash that are read at once."""

_REFUSALS = {
    "OOM": "it uses all the memory that `maxmemory` allows",
    "NOREPLICAS": "fewer replicas are connected than `min-replicas-to-write` asks for",
    "MISCONF": "it cannot save its data on its disk",
    "READONLY": "it is a read-only replica",
}
"""Redis's error codes for refused writes → explanation for users."""
_REFUSED = re.compile(rf"(?:^|: ?-)({'|'.join(_REFUSALS)}) ")
"""Matches the error of a refused command, also inside a script: servers before 7.0 prefix the code with a text."""


_FIGURES = (
    *("used_memory", "maxmemory", "connected_clients", "blocked_clients", "instantaneous_ops_per_sec"),
    *("aof_current_size", "aof_pending_bio_fsync", "aof_delayed_fsync", "evicted_keys", "uptime_in_seconds"),
)
"""Fields of INFO."""


class RedisBackend:
    """``server``: redis-py's arguments for the server (``unix_socket_path``, or ``host``, ``port``) and the user.

    ``folder``: the data folder of a server on this machine. On a full disk, that server would end instead of refusing a
    write, so the write is refused here. ``tls``: this host's certificate, and the name that the server must prove.

    It uses redis-py's connections directly, because redis-py's client takes three times as long per command. Each
    command has its own connection, so threads do not wait for each other.
    """

    def __init__(self, folder: Path | None = None, tls: tuple[TlsFiles, str] | None = None, **server: Any) -> None:
        self._folder = folder
        self._redis = redis.Redis(
            decode_responses=True,
            encoding_errors="replace",  # a writer could send any bytes; a reader must not fail on them
            protocol=2,
            retry=Retry(NoBackoff(), 0),
            socket_timeout=5,
            socket_connect_timeout=5,
            health_check_interval=0,
            **server,
        )
        if tls is not None:
            pool = self._redis.connection_pool
            pool.connection_class = _TlsConnection
            pool.connection_kwargs.update(tls=tls)
        self._idle: deque[Any] = deque()
        self._digest = ""

    def read_certificates(self) -> None:
        """Have the server use its renewed certificate for new connections. Needs the user ``admin``."""
        with _translated():
            files = self._redis.config_get("tls-*-file")
            words = [word for name in ("tls-cert-file", "tls-key-file") for word in (name, files[name])]
            self._ask("CONFIG", "SET", *words)

    def apply(self, ops: list[Op], guards: list[Guard] | None = None) -> int:
        step = msgpack.packb([guards or [], list(_bounded(ops))])
        self._check_room()
        with _translated():
            if not self._digest:
                self._digest = str(self._ask("SCRIPT", "LOAD", _APPLY))
            try:
                return cast(int, self._ask("EVALSHA", self._digest, 0, step))
            except NoScriptError:  # the server was restarted; it does not keep scripts
                return cast(int, self._ask("EVAL", _APPLY, 0, step))

    def append(self, ops: list[Op], hints: Sequence[Op] = ()) -> None:
        commands = [_command(op) for op in (*ops, *hints)]
        self._check_room()
        with _translated():
            if len(ops) == 1:  # atomic by itself; this is most reports
                answer = self._ask_all(commands)[0]
                if isinstance(answer, ResponseError):
                    raise answer
                return
            answers = self._ask_all([("MULTI",), *commands, ("EXEC",)])
            refused = [answer for answer in answers[1 : len(ops) + 1] if isinstance(answer, ResponseError)]
            done = answers[-1] if isinstance(answers[-1], list) else [answers[-1]]
            refused += [answer for answer in done[: len(ops)] if isinstance(answer, ResponseError)]
            if refused:
                raise refused[0]

    def put(self, key: str, value: str, seconds: int, channel: str) -> None:
        self._check_room()
        with _translated():
            self._ask_and_tell(channel, key, "SET", key, value, "EX", seconds)

    def put_if(self, key: str, value: str, seconds: int, old: str | None, channel: str) -> bool:
        self._check_room()
        with _translated():
            if old is None:
                return self._ask_and_tell(channel, key, "SET", key, value, "EX", seconds, "NX") is not None
            connection = self._new_connection()  # of its own: WATCH is state of a connection
            try:
                connection.send_packed_command(connection.pack_commands([("WATCH", key), ("GET", key)]))
                _, present = connection.read_response(), connection.read_response()
                if present != old:
                    return False
                commands = [("MULTI",), ("SET", key, value, "EX", seconds), ("PUBLISH", channel, key), ("EXEC",)]
                connection.send_packed_command(connection.pack_commands(commands))
                return [connection.read_response() for _ in commands][-1] is not None
            finally:
                connection.disconnect()

    def delete(self, key: str, channel: str) -> bool:
        with _translated():
            return bool(self._ask_and_tell(channel, key, "DEL", key))

    def seconds_left(self, key: str) -> float | None:
        with _translated():
            left = cast(int, self._ask("PTTL", key))
            return left / 1000 if left >= 0 else None

    def listen(self) -> RedisListener:
        return RedisListener(self._redis.pubsub())  # type: ignore[no-untyped-call]

    def stream_sizes(self, keys: Sequence[str]) -> list[tuple[int, int]]:
        if not keys:
            return []
        with _translated():
            flat = self._ask("EVAL", _SIZES, len(keys), *keys)
        return list(zip(flat[::2], flat[1::2], strict=True))

    def get(self, key: str) -> str | None:
        with _translated():
            return cast("str | None", self._ask("GET", key))

    def hget(self, key: str, field: str) -> str | None:
        with _translated():
            return cast("str | None", self._ask("HGET", key, field))

    def hgetall(self, key: str) -> dict[str, str]:
        with _translated():
            return _pairs(self._ask("HGETALL", key))

    def hget_many(self, key: str, fields: Sequence[str]) -> dict[str, str]:
        if not fields:
            return {}
        with _translated():
            texts = self._ask("HMGET", key, *fields)
        return {field: text for field, text in zip(fields, texts, strict=True) if text is not None}

    def hash_pieces(self, key: str) -> Iterator[dict[str, str]]:
        cursor = "0"
        while True:
            with _translated():
                cursor, flat = self._ask("HSCAN", key, cursor, "COUNT", _PIECE)
            yield _pairs(flat)
            if cursor == "0":
                return

    def size(self, key: str) -> int:
        with _translated():
            return cast(int, self._ask("ZCARD", key))

    def highest(self, key: str, below: str | None, limit: int) -> list[str]:
        start = "+" if below is None else f"({below}"
        with _translated():
            return cast("list[str]", self._ask("ZREVRANGEBYLEX", key, start, "-", "LIMIT", 0, limit))

    def stream(self, key: str, after: str, limit: int) -> list[Entry]:
        with _translated():
            start = "-" if after in ("0", "0-0", "-") else f"({after}"
            return _entries(self._ask("XRANGE", key, start, "+", "COUNT", limit))

    def newest(self, key: str) -> Entry | None:
        with _translated():
            entries = _entries(self._ask("XREVRANGE", key, "+", "-", "COUNT", 1))
            return entries[0] if entries else None

    def backwards(self, key: str, before: str | None, limit: int) -> list[Entry]:
        with _translated():
            end = "+" if before is None else f"({before}"
            return _entries(self._ask("XREVRANGE", key, end, "-", "COUNT", limit))

    def wait(self, after: dict[str, str], seconds: float, limit: int) -> dict[str, list[Entry]]:
        block = ("BLOCK", max(1, int(seconds * 1000))) if seconds > 0 else ()
        with _translated():
            found = self._ask("XREAD", "COUNT", limit, *block, "STREAMS", *after, *after.values())
            return {key: _entries(entries) for key, entries in found or ()}

    def ping(self) -> None:
        with _translated():
            self._ask("PING")

    def delete_prefix(self, prefix: str) -> None:
        """Remove every key with ``prefix``, to delete a cluster from a redis of the user's own."""
        with _translated():
            for key in self._redis.scan_iter(match=prefix + "*", count=500):
                self._redis.delete(key)

    def set_user(self, name: str, rules: list[str]) -> None:
        """Create or replace a user and save it in the server's ACL file. Needs the rights of ``admin``."""
        self._check_room()
        with _translated():
            self._ask("ACL", "SETUSER", name, *rules)
            self._ask("ACL", "SAVE")

    def delete_users(self, names: list[str]) -> None:
        """Delete users and close their connections. Unknown names are ignored."""
        with _translated():
            self._ask("ACL", "DELUSER", *names)
            self._ask("ACL", "SAVE")

    def clients(self) -> list[dict[str, str]]:
        """Return the server's connections, as ``CLIENT LIST`` describes them."""
        with _translated():
            lines = str(self._ask("CLIENT", "LIST")).splitlines()
        return [dict(word.partition("=")[::2] for word in line.split()) for line in lines]

    def drop_client(self, client: str) -> None:
        """Close a connection by its id."""
        with _translated():
            self._ask("CLIENT", "KILL", "ID", client)

    def users(self) -> list[str]:
        with _translated():
            return cast("list[str]", self._ask("ACL", "USERS"))

    def used_memory(self) -> int:
        """Return the bytes that the server uses."""
        with _translated():
            return int(self._redis.info("memory")["used_memory"])

    def names(self, pattern: str) -> Iterator[list[str]]:
        """Yield the names of keys that match, in pieces. Only for the bounds of what others write."""
        cursor = 0
        while True:
            with _translated():
                cursor, found = cast("tuple[int, list[str]]", self._redis.scan(cursor, pattern, _SCANNED))
            yield found
            if not cursor:
                return

    def lengths(self, names: Sequence[str]) -> list[int]:
        """Return the bytes of each text; 0: there is none, or it is no text."""
        if not names:
            return []
        with _translated():
            pipe = self._redis.pipeline(transaction=False)
            for name in names:
                pipe.strlen(name)
            answers = pipe.execute(raise_on_error=False)
        return [answer if isinstance(answer, int) else 0 for answer in answers]

    def remove(self, names: Sequence[str]) -> int:
        """Remove these keys; return how many there were."""
        with _translated():
            return self._redis.unlink(*names) if names else 0

    def version(self) -> tuple[int, ...]:
        with _translated():
            said = str(self._redis.info("server")["redis_version"])
            return tuple(int(part) for part in said.split("."))

    def figures(self) -> dict[str, float]:
        """Return what the server tells of itself that is worth watching: memory, clients, commands, its file."""
        with _translated():
            told = self._redis.info()
        return {name: float(told[name]) for name in _FIGURES if isinstance(told.get(name), (int, float))}

    def durability(self) -> dict[str, str]:
        """Return the server's settings ``appendonly`` and ``appendfsync``; empty if it refuses to tell."""
        try:
            with _translated():
                return cast("dict[str, str]", self._redis.config_get("append*"))
        except (NotAllowedError, ResponseError):
            return {}

    def close(self) -> None:
        self._forget_connections()
        self._redis.close()

    def _ask(self, *command: Any) -> Any:
        """Send one command and return the answer. If a connection fails, all idle ones are closed, too."""
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._new_connection()
        try:
            connection.send_command(*command)
            answer = connection.read_response()
        except ResponseError:
            self._idle.append(connection)
            raise
        except BaseException:
            connection.disconnect()
            self._forget_connections()
            raise
        self._idle.append(connection)
        return answer

    def _ask_and_tell(self, channel: str, key: str, *command: Any) -> Any:
        """Send a command, and the key to a channel, in one piece: nobody can miss the message of a change."""
        answer, told = self._ask_all([command, ("PUBLISH", channel, key)])
        for each in (answer, told):
            if isinstance(each, ResponseError):
                raise each
        return answer

    def _ask_all(self, commands: list[tuple[Any, ...]]) -> list[Any]:
        """Send commands in one piece and return their answers. An answer may be a ResponseError."""
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._new_connection()
        try:
            connection.send_packed_command(connection.pack_commands(commands))
            answers = [_answer(connection) for _ in commands]
        except BaseException:
            connection.disconnect()
            self._forget_connections()
            raise
        self._idle.append(connection)
        return answers

    def _check_room(self) -> None:
        if self._folder is not None and disk.is_full(self._folder):
            raise StoreFullError(
                f"the store refuses writes: the disk of {self._folder} is full "
                f"({disk.free(self._folder) >> 20} MiB free); free some space, and the cluster continues by itself"
            )

    def _new_connection(self) -> Any:
        """Open a connection. The pool's own method counts all connections it ever made, and refuses the 101st."""
        pool = self._redis.connection_pool
        return pool.connection_class(**pool.connection_kwargs)

    def _forget_connections(self) -> None:
        while self._idle:
            self._idle.pop().disconnect()


class _TlsConnection(redis.Connection):
    """redis-py's own TLS trusts the authorities of the system too, and reads them at each connection."""

    def __init__(self, *arguments: Any, tls: tuple[TlsFiles, str], **more: Any) -> None:
        self._tls = tls
        super().__init__(*arguments, **more)  # type: ignore[no-untyped-call]

    def _connect(self) -> Any:
        return wrap(super()._connect(), *self._tls)  # type: ignore[no-untyped-call]


class RedisListener:
    """Over redis-py's ``PubSub``, whose methods lock. A connection that is silent is tried with PING."""

    def __init__(self, pubsub: Any) -> None:
        self._pubsub = pubsub
        self._tried = False

    def add(self, channel: str) -> None:
        with _translated():
            self._pubsub.subscribe(channel)

    def remove(self, channel: str) -> None:
        with _translated():
            self._pubsub.unsubscribe(channel)

    def next(self, seconds: float) -> tuple[str, str | None] | None:
        with _translated():
            message = self._pubsub.get_message(timeout=seconds)
            if message is None:
                if not self._pubsub.subscribed:
                    return None
                if self._tried:
                    raise UnreachableError("redis does not answer: no answer to PING")
                self._tried = True
                self._pubsub.ping()
                return None
        self._tried = False
        if message["type"] not in ("subscribe", "message"):
            return None
        return message["channel"], message["data"] if message["type"] == "message" else None

    def close(self) -> None:
        self._pubsub.close()


def _answer(connection: Any) -> Any:
    try:
        return connection.read_response()
    except ResponseError as error:
        return error


def _command(op: Op) -> tuple[Any, ...]:
    """Return the command of an XADD or XDEL as the script writes it."""
    if op[0] != "XADD":
        return op
    _, key, limit, *pairs = op
    return ("XADD", key, *(("MAXLEN", "~", limit) if limit else ()), "*", *pairs)


def _pairs(flat: list[str]) -> dict[str, str]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _entries(found: list[Any]) -> list[Entry]:
    return [(entry_id, _pairs(fields or [])) for entry_id, fields in found]


def _bounded(ops: list[Op]) -> Iterator[Op]:
    for op in ops:
        if len(op) <= _MOST_ARGUMENTS or op[0] not in ("HSET", "HDEL", "XDEL"):
            yield op
            continue
        head, rest = op[:2], op[2:]
        for start in range(0, len(rest), _MOST_ARGUMENTS):
            yield head + rest[start : start + _MOST_ARGUMENTS]


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except AuthenticationError as error:
        raise NotAllowedError(f"redis refuses this user: {error}") from error
    except (ConnectionError, TimeoutError, BusyLoadingError) as error:
        raise UnreachableError(f"redis does not answer: {error}") from error
    except ResponseError as error:
        code = _refusal_code(error)
        if code is None:
            raise
        if code == "MISCONF" and os.strerror(errno.ENOSPC) in str(error):
            raise StoreFullError(f"the store refuses writes: redis' disk is full ({error})") from error
        raise StoreRefusesError(f"the store refuses writes: {_REFUSALS[code]} (redis says {code})") from error


def _refusal_code(error: ResponseError) -> str | None:
    """Return the code in ``_REFUSALS``; None for other errors. redis-py has exception classes for two of them."""
    if isinstance(error, OutOfMemoryError):
        return "OOM"
    if isinstance(error, ReadOnlyError):
        return "READONLY"
    found = _REFUSED.search(str(error))
    return found.group(1) if found else None
