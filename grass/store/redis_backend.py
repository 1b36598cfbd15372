"""A ``Backend`` over a redis (or valkey) server. ``grass.store.connect`` opens it for the facades of the processes.

Used by this package, ``grass.provision`` and ``master.monitor``.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from redis.exceptions import NoScriptError, ResponseError

from grass.errors import GrassError, StoreRefusesError
from grass.store.backend import Entry, Guard, Op
from grass.store.redis_link import RedisListener, translated
from grass.store.redis_scripts import APPLY, SIZES, command_of, packed_step
from grass.store.redis_server import RedisServer
from grass.store.standby_gate import AGAIN, PATIENCE, PROBE, Followed
from grass.system.clock import sleep, steady
from grass.tls_files import TlsFiles

_SCANNED = 2_000
"""Keys that the server looks at for one answer of SCAN."""
_PIECE = 500
"""Fields of a large hash that are read at once."""


class RedisBackend(RedisServer):
    """The keys of a cluster. The arguments are those of ``RedisLink``."""

    def __init__(
        self,
        folder: Path | None = None,
        tls: tuple[TlsFiles, str] | None = None,
        *,
        of_users: bool = False,
        standby: Followed | None = None,
        **server: Any,
    ) -> None:
        """``standby``: what ``apply`` waits for; None: there is no standby."""
        super().__init__(folder, tls, of_users=of_users, **server)
        self._standby = standby.gate if standby is not None else None
        self._alone_key = standby.alone if standby is not None else ""
        self._consent_key = standby.consent if standby is not None else ""
        self._joined = False
        self._writer = f"{os.getpid()}:{id(self)}"
        self._digest = ""

    def apply(self, ops: list[Op], guards: list[Guard] | None = None, *, urgent: bool | None = None) -> int:
        step = packed_step(ops, guards or [])
        self._check_size(urgent=not self._of_users if urgent is None else urgent)
        with translated():
            if not self._digest:
                self._digest = str(self._ask("SCRIPT", "LOAD", APPLY))
            try:
                return cast(int, self._ask_durably("EVALSHA", self._digest, 0, step))
            except NoScriptError:  # the server was restarted; it does not keep scripts
                return cast(int, self._ask_durably("EVAL", APPLY, 0, step))

    def _ask_durably(self, *command: Any) -> Any:
        """Send a command, and wait until the standby has what it wrote. Raises StoreRefusesError: it has to, and has
        not."""
        gate = self._standby
        if gate is not None and not self._joined:
            self._joined = True
            if self._ask("HLEN", self._alone_key):  # somebody has waited for the standby, and this process need not
                gate.missed(self._note_alone, self._rejoin)
        if gate is None:
            return self._ask(*command)
        sent = steady()
        if not gate.patience:
            answer = self._ask(*command)
            if gate.alone:  # looked at afterwards: the note that this process is alone is still in the store
                return answer
            _, replicas = self._ask_and_wait(("HLEN", self._alone_key), PATIENCE)
        else:
            answer, replicas = self._ask_and_wait(command, PATIENCE)
        if not gate.confirmed(replicas, sent, steady()) and not gate.missed(self._note_alone, self._rejoin):
            why = "the witness has not agreed that the master goes on" if gate.witness else "`when_away` is refuse"
            raise StoreRefusesError(
                f"the store refuses writes: the standby is away, and {why}; this write is on the master alone, and may "
                "still take effect"
            )
        return answer

    def _ask_and_wait(self, command: tuple[Any, ...], seconds: float) -> tuple[Any, int]:
        """Return the answer, and the number of replicas that have what the command wrote."""
        answer, replicas = self._ask_all([command, ("WAIT", 1, int(seconds * 1000))])
        for each in (answer, replicas):
            if isinstance(each, ResponseError):
                raise each
        return answer, replicas

    def _note_alone(self) -> bool:
        note: list[Op] = [("HSET", self._alone_key, self._writer, "1")]
        guards: list[Guard] = [("equals", self._consent_key, "1")] if self._consent_key else []
        return bool(self._ask("EVAL", APPLY, 0, packed_step(note, guards)) == 0)

    def _rejoin(self) -> None:
        threading.Thread(target=self._look_for_standby, name="rejoin", daemon=True).start()

    def on_replica(self, seconds: float) -> bool:
        """Wait until a replica has everything up to now. Return whether one has."""
        with translated():
            _, replicas = self._ask_and_wait(("PING",), seconds)
        return replicas > 0

    def _look_for_standby(self) -> None:
        """Wait until the standby has everything. Then let writes wait for it again."""
        gate = self._standby
        while gate is not None and gate.alone:
            sleep(AGAIN)
            with suppress(GrassError), translated():
                _, replicas = self._ask_and_wait(("HSET", self._alone_key, self._writer, "1"), PROBE)
                if replicas:
                    gate.back(lambda: self._ask("HDEL", self._alone_key, self._writer))

    def append(self, ops: list[Op], hints: Sequence[Op] = (), *, urgent: bool = True) -> None:
        commands = [command_of(op) for op in (*ops, *hints)]
        self._check_size(urgent=urgent)
        with translated():
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
        self._check_size(urgent=False)
        with translated():
            self._ask_and_publish(channel, key, "SET", key, value, "EX", seconds)

    def put_if(self, key: str, value: str, seconds: int, old: str | None, channel: str) -> bool:
        self._check_size(urgent=False)
        with translated():
            if old is None:
                return self._ask_and_publish(channel, key, "SET", key, value, "EX", seconds, "NX") is not None
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
        with translated():
            return bool(self._ask_and_publish(channel, key, "DEL", key))

    def seconds_left(self, key: str) -> float | None:
        with translated():
            left = cast(int, self._ask("PTTL", key))
            return left / 1000 if left >= 0 else None

    def listen(self) -> RedisListener:
        return RedisListener(self._redis.pubsub())  # type: ignore[no-untyped-call]

    def stream_sizes(self, keys: Sequence[str]) -> list[tuple[int, int]]:
        if not keys:
            return []
        with translated():
            flat = self._ask("EVAL", SIZES, len(keys), *keys)
        return list(zip(flat[::2], flat[1::2], strict=True))

    def get(self, key: str) -> str | None:
        with translated():
            return cast("str | None", self._ask("GET", key))

    def hget(self, key: str, field: str) -> str | None:
        with translated():
            return cast("str | None", self._ask("HGET", key, field))

    def hgetall(self, key: str) -> dict[str, str]:
        with translated():
            return _pairs(self._ask("HGETALL", key))

    def hget_many(self, key: str, fields: Sequence[str]) -> dict[str, str]:
        if not fields:
            return {}
        with translated():
            texts = self._ask("HMGET", key, *fields)
        return {field: text for field, text in zip(fields, texts, strict=True) if text is not None}

    def hash_pieces(self, key: str) -> Iterator[dict[str, str]]:
        cursor = "0"
        while True:
            with translated():
                cursor, flat = self._ask("HSCAN", key, cursor, "COUNT", _PIECE)
            yield _pairs(flat)
            if cursor == "0":
                return

    def size(self, key: str) -> int:
        with translated():
            return cast(int, self._ask("ZCARD", key))

    def highest(self, key: str, below: str | None, limit: int) -> list[str]:
        start = "+" if below is None else f"({below}"
        with translated():
            return cast("list[str]", self._ask("ZREVRANGEBYLEX", key, start, "-", "LIMIT", 0, limit))

    def stream(self, key: str, after: str, limit: int) -> list[Entry]:
        with translated():
            start = "-" if after in ("0", "0-0", "-") else f"({after}"
            return _entries(self._ask("XRANGE", key, start, "+", "COUNT", limit))

    def newest(self, key: str) -> Entry | None:
        with translated():
            entries = _entries(self._ask("XREVRANGE", key, "+", "-", "COUNT", 1))
            return entries[0] if entries else None

    def backwards(self, key: str, before: str | None, limit: int) -> list[Entry]:
        with translated():
            end = "+" if before is None else f"({before}"
            return _entries(self._ask("XREVRANGE", key, end, "-", "COUNT", limit))

    def wait(self, after: dict[str, str], seconds: float, limit: int) -> dict[str, list[Entry]]:
        block = ("BLOCK", max(1, int(seconds * 1000))) if seconds > 0 else ()
        with translated():
            found = self._ask("XREAD", "COUNT", limit, *block, "STREAMS", *after, *after.values())
            return {key: _entries(entries) for key, entries in found or ()}

    def ping(self) -> None:
        with translated():
            self._ask("PING")

    def delete_prefix(self, prefix: str) -> None:
        """Remove every key with ``prefix``, to delete a cluster from a redis of the user's own."""
        with translated():
            for key in self._redis.scan_iter(match=prefix + "*", count=500):
                self._redis.delete(key)

    def names(self, pattern: str) -> Iterator[list[str]]:
        """Yield the names of keys that match, in pieces. Only for the bounds of what others write."""
        cursor = 0
        while True:
            with translated():
                cursor, found = cast("tuple[int, list[str]]", self._redis.scan(cursor, pattern, _SCANNED))
            yield found
            if not cursor:
                return

    def lengths(self, names: Sequence[str]) -> list[int]:
        """Return the bytes of each text; 0: there is none, or it is no text."""
        if not names:
            return []
        with translated():
            pipe = self._redis.pipeline(transaction=False)
            for name in names:
                pipe.strlen(name)
            answers = pipe.execute(raise_on_error=False)
        return [answer if isinstance(answer, int) else 0 for answer in answers]

    def remove(self, names: Sequence[str]) -> int:
        """Remove these keys; return how many there were."""
        with translated():
            return self._redis.unlink(*names) if names else 0


def _pairs(flat: list[str]) -> dict[str, str]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _entries(found: list[Any]) -> list[Entry]:
    return [(entry_id, _pairs(fields or [])) for entry_id, fields in found]
