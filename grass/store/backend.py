"""The narrow interface to the store's server: reads, and one atomic guarded step. Used by the facades of the store.

Implemented by ``RedisBackend``, and by ``MemoryBackend`` (``tests/doubles``). Both pass the same contract tests
(``tests/contract/test_backend.py``). Nothing here knows what a job is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

Op = tuple[str | int, ...]
"""One write. ``("SET", key, value)``, ``("SETEX", key, seconds, value)``, ``("DEL", key)``,
``("INCR", key)``, ``("HSET", key, field, value, …)``, ``("HDEL", key, field, …)``,
``("HSWAP", key, field, old, new)`` (only if the field is ``old``; without ``new``, that is "", it is removed),
``("XADD", key, max_length, field, value, …)`` (max_length 0: unbounded; its reader deletes what it took),
``("XDEL", key, id, …)``, ``("ZADD", key, 0, member)``, ``("ZREM", key, member)``: a sorted set in order of its
members."""

Guard = tuple[str, str, str]
"""``("equals", key, value)``, ``("below", key, number)``, ``("no-field", hash, field)``,
``("no-key", key, "")``; checked in the same step."""

Entry = tuple[str, dict[str, str]]
"""One entry of a stream: its id and its fields."""


class Listener(Protocol):
    """Receives what is sent to channels. ``next`` is for one thread, the others for any. After UnreachableError, close
    it and open another one: what was sent meanwhile is lost."""

    def add(self, channel: str) -> None:
        """Listen to a channel, too."""
        ...

    def remove(self, channel: str) -> None: ...

    def next(self, seconds: float) -> tuple[str, str | None] | None:
        """Wait for the next message: (channel, key); None: nothing came.

        The key is None when the listener has begun to receive what is sent to the channel."""
        ...

    def close(self) -> None: ...


class Backend(Protocol):
    """Every method raises ``UnreachableError`` while the server is away; nothing is retried here."""

    def apply(self, ops: list[Op], guards: list[Guard] | None = None, *, urgent: bool | None = None) -> int:
        """Do all of ``ops`` in one atomic step if every guard holds.

        ``urgent``: whether to do it also when the server's disk is full (``reserve``); None: what daemons decide is
        urgent, what users ask for is not.

        Returns 0 when done, otherwise the number (from 1) of the first guard that failed; then nothing was changed.
        """
        ...

    def append(self, ops: list[Op], hints: Sequence[Op] = (), *, urgent: bool = True) -> None:
        """Do all of ``ops`` in one atomic step without guards, and ``hints`` after them. ``urgent``: as for ``apply``.

        Needs no right to run scripts. ``ops`` must be XADD or XDEL. The failure of a hint is ignored.
        """
        ...

    def put(self, key: str, value: str, seconds: int, channel: str) -> None:
        """Store a value that expires, and send the key to the listeners of ``channel``. Needs no right to run scripts,
        as the two below."""
        ...

    def put_if(self, key: str, value: str, seconds: int, old: str | None, channel: str) -> bool:
        """Do as ``put``, if the present value is ``old`` (None: there is none), in one atomic step.

        Return whether it was stored.
        """
        ...

    def delete(self, key: str, channel: str) -> bool:
        """Return whether there was a value."""
        ...

    def seconds_left(self, key: str) -> float | None:
        """Return the time until a value expires; None: there is none, or it stays."""
        ...

    def listen(self) -> Listener:
        """Open a listener. The caller closes it."""
        ...

    def stream_sizes(self, keys: Sequence[str]) -> list[tuple[int, int]]:
        """Return of each stream the number of its entries, and its bytes in memory, estimated."""
        ...

    def get(self, key: str) -> str | None: ...

    def hget(self, key: str, field: str) -> str | None: ...

    def hgetall(self, key: str) -> dict[str, str]: ...

    def hget_many(self, key: str, fields: Sequence[str]) -> dict[str, str]:
        """Return those of ``fields`` that are there."""
        ...

    def hash_pieces(self, key: str) -> Iterator[dict[str, str]]:
        """A large hash in pieces. What is written meanwhile may be in it or not."""
        ...

    def size(self, key: str) -> int:
        """Members of a sorted set."""
        ...

    def highest(self, key: str, below: str | None, limit: int) -> list[str]:
        """Members of a sorted set that are less than ``below`` (None: all), the highest first."""
        ...

    def stream(self, key: str, after: str, limit: int) -> list[Entry]:
        """Return entries after the id ``after`` (exclusive; ``"0"``: from the beginning), oldest first."""
        ...

    def newest(self, key: str) -> Entry | None:
        """Return the newest entry."""
        ...

    def backwards(self, key: str, before: str | None, limit: int) -> list[Entry]:
        """Return entries before the id ``before`` (exclusive; None: from the end), newest first."""
        ...

    def wait(self, after: dict[str, str], seconds: float, limit: int) -> dict[str, list[Entry]]:
        """Return entries after the given ids of several streams. Wait up to ``seconds`` for the first."""
        ...

    def ping(self) -> None: ...

    def close(self) -> None: ...
