"""Connections to a redis (or valkey) server, and what its errors mean for Grass. Used by ``RedisBackend``."""

from __future__ import annotations

import errno
import os
import re
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ConnectionError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
    TimeoutError,
)
from redis.retry import Retry

from grass.errors import NotAllowedError, StoreFullError, StoreRefusesError, UnreachableError
from grass.model.amounts import show_memory
from grass.store import reserve
from grass.system import disk
from grass.tls import wrap
from grass.tls_files import TlsFiles

_REFUSALS = {
    "OOM": "it uses all the memory that `maxmemory` allows",
    "NOREPLICAS": "the standby is away, or another replica that `min-replicas-to-write` asks for",
    "MISCONF": "it cannot save its data on its disk",
    "READONLY": "it is a read-only replica",
}
"""Redis's error codes for refused writes → explanation for users."""
_REFUSED = re.compile(rf"(?:^|: ?-)({'|'.join(_REFUSALS)}) ")
"""Matches the error of a refused command, also inside a script: servers before 7.0 prefix the code with a text."""

_BUSY = re.compile("(?:^|: ?-?)BUSY ")
"""Matches the error of a command, also in a transaction, while a script runs for longer than the server allows."""


class RedisLink:
    """A connection to one server.

    ``server``: redis-py's arguments for the server (``unix_socket_path``, or ``host``, ``port``) and the user.

    ``folder``: the data folder of a server on this machine. On a full disk, that server would end instead of refusing a
    write, so the write is refused here. ``of_users``: it writes what users ask for. ``tls``: this host's certificate,
    and the name that the server must prove.

    It uses redis-py's connections directly, because redis-py's client takes three times as long per command. Each
    command has its own connection, so threads do not wait for each other.
    """

    def __init__(
        self,
        folder: Path | None = None,
        tls: tuple[TlsFiles, str] | None = None,
        *,
        of_users: bool = False,
        **server: Any,
    ) -> None:
        self._folder = folder
        self._of_users = of_users
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

    def _ask_and_publish(self, channel: str, key: str, *command: Any) -> Any:
        """Send a command, and the key to a channel, in one piece: nobody can miss the message of a change."""
        answer, published = self._ask_all([command, ("PUBLISH", channel, key)])
        for each in (answer, published):
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

    def _check_size(self, *, urgent: bool = True) -> None:
        """Raise StoreFullError if the server's disk is full. An urgent write may use what is kept for that time."""
        if self._folder is None or not disk.is_full(self._folder):
            return
        if not urgent or not reserve.allows(self._folder, call=self._of_users):
            raise StoreFullError(
                f"the store refuses writes: the disk of {self._folder} is full "
                f"({show_memory(disk.free(self._folder))} free); free some space, and the cluster continues by itself"
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
    """A listener over redis-py's ``PubSub``, whose methods lock. A connection that is silent is tried with PING."""

    def __init__(self, pubsub: Any) -> None:
        self._pubsub = pubsub
        self._tried = False

    def add(self, channel: str) -> None:
        with translated():
            self._pubsub.subscribe(channel)

    def remove(self, channel: str) -> None:
        with translated():
            self._pubsub.unsubscribe(channel)

    def next(self, seconds: float) -> tuple[str, str | None] | None:
        with translated():
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


class RefusedByStoreError(NotAllowedError):
    """redis does not know this user, or another password of it: a node that was removed, or a master that was
    replaced."""

    code = "refused-by-store"


@contextmanager
def translated() -> Iterator[None]:
    """Turn redis-py's exceptions into those of ``grass.errors``. Other errors of a command pass."""
    try:
        yield
    except AuthenticationError as error:
        raise RefusedByStoreError(f"redis refuses this user: {error}") from error
    except (ConnectionError, TimeoutError, BusyLoadingError) as error:
        raise UnreachableError(f"redis does not answer: {error}") from error
    except ResponseError as error:
        if _BUSY.search(str(error)):
            raise UnreachableError(f"redis does not answer: it is busy with a script ({error})") from error
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
