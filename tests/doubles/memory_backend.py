"""A ``Backend`` in this process's memory. As atomic as the real one: a lock protects every step."""

from __future__ import annotations

import queue
import threading
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any

from grass.store.backend import Entry, Guard, Op


class MemoryBackend:
    """A ``Backend`` in memory, of one process. The contract tests run against it and against redis."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._strings: dict[str, str] = {}
        self._hashes: dict[str, dict[str, str]] = {}
        self._streams: dict[str, list[Entry]] = {}
        self._sets: dict[str, set[str]] = {}
        self._last: dict[str, int] = {}
        self._listeners: list[MemoryListener] = []

    def apply(self, ops: list[Op], guards: list[Guard] | None = None, *, urgent: bool | None = None) -> int:
        with self._changed:
            for number, guard in enumerate(guards or [], start=1):
                if not self._holds(guard):
                    return number
            for op in ops:
                self._write(op)
            self._changed.notify_all()
            return 0

    def append(self, ops: list[Op], hints: Sequence[Op] = (), *, urgent: bool = True) -> None:
        self.apply([*ops, *hints])

    def put(self, key: str, value: str, seconds: int, channel: str) -> None:
        self.apply([("SETEX", key, seconds, value)])
        self._tell(channel, key)

    def put_if(self, key: str, value: str, seconds: int, old: str | None, channel: str) -> bool:
        guard: Guard = ("no-key", key, "") if old is None else ("equals", key, old)
        done = not self.apply([("SETEX", key, seconds, value)], [guard])
        self._tell(channel, key)
        return done

    def delete(self, key: str, channel: str) -> bool:
        with self._changed:
            gone = self._strings.pop(key, None) is not None
        self._tell(channel, key)
        return gone

    def seconds_left(self, key: str) -> float | None:
        """Values stay here."""
        return None

    def listen(self) -> MemoryListener:
        self._listeners.append(MemoryListener())
        return self._listeners[-1]

    def _tell(self, channel: str, key: str) -> None:
        for listener in self._listeners:
            listener.take(channel, key)

    def stream_sizes(self, keys: Sequence[str]) -> list[tuple[int, int]]:
        with self._changed:
            found = [self._streams.get(key, []) for key in keys]
        texts = [sum(len(text) for _, fields in entries for text in fields.values()) for entries in found]
        return [(len(entries), size) for entries, size in zip(found, texts, strict=True)]

    def _holds(self, guard: Guard) -> bool:
        match guard:
            case ("equals", key, value):
                return self._strings.get(key) == value
            case ("below", key, number):
                return float(self._strings.get(key, "0")) < float(number)
            case ("no-field", key, field):
                return field not in self._hashes.get(key, {})
            case ("no-key", key, _):
                return key not in self._strings
        raise ValueError(guard)

    def _write(self, op: Op) -> None:  # noqa: C901 (one flat case per kind of write)
        key = str(op[1])
        match op:
            case ("SET", _, value):
                self._strings[key] = str(value)
            case ("SETEX", _, _, value):
                self._strings[key] = str(value)
            case ("INCR", _):
                self._strings[key] = str(int(self._strings.get(key, "0")) + 1)
            case ("DEL", _):
                for kind in (self._strings, self._hashes, self._streams, self._sets):
                    kind.pop(key, None)
            case ("HSET", _, *pairs):
                self._hashes.setdefault(key, {}).update(_pairs(pairs))
            case ("HDEL", _, *fields):
                for field in fields:
                    self._hashes.get(key, {}).pop(str(field), None)
            case ("HSWAP", _, field, old, new):
                values = self._hashes.get(key, {})
                if values.get(str(field)) == old:
                    values.update({str(field): str(new)})
                    if not new:
                        del values[str(field)]
            case ("XADD", _, int(limit), *pairs):
                self._last[key] = self._last.get(key, 0) + 1
                entries = self._streams.setdefault(key, [])
                entries.append((f"{self._last[key]}-0", _pairs(pairs)))
                if limit:
                    del entries[:-limit]
            case ("ZADD", _, 0, member):
                self._sets.setdefault(key, set()).add(str(member))
            case ("ZREM", _, member):
                self._sets.get(key, set()).discard(str(member))
            case ("XDEL", _, *ids):
                gone = set(ids)
                self._streams[key] = [entry for entry in self._streams.get(key, []) if entry[0] not in gone]
            case _:
                raise ValueError(op)

    def get(self, key: str) -> str | None:
        with self._changed:
            return self._strings.get(key)

    def hget(self, key: str, field: str) -> str | None:
        with self._changed:
            return self._hashes.get(key, {}).get(field)

    def hgetall(self, key: str) -> dict[str, str]:
        with self._changed:
            return dict(self._hashes.get(key, {}))

    def hget_many(self, key: str, fields: Sequence[str]) -> dict[str, str]:
        values = self.hgetall(key)
        return {field: values[field] for field in fields if field in values}

    def hash_pieces(self, key: str) -> Iterator[dict[str, str]]:
        yield self.hgetall(key)

    def size(self, key: str) -> int:
        with self._changed:
            return len(self._sets.get(key, ()))

    def highest(self, key: str, below: str | None, limit: int) -> list[str]:
        with self._changed:
            members = [one for one in self._sets.get(key, ()) if below is None or one < below]
        return sorted(members, reverse=True)[:limit]

    def stream(self, key: str, after: str, limit: int) -> list[Entry]:
        with self._changed:
            return self._after(key, after)[:limit]

    def newest(self, key: str) -> Entry | None:
        with self._changed:
            entries = self._streams.get(key)
            return entries[-1] if entries else None

    def backwards(self, key: str, before: str | None, limit: int) -> list[Entry]:
        with self._changed:
            entries = self._streams.get(key, [])
            end = len(entries) if before is None else _first_from(entries, _number(before))
            return entries[max(0, end - limit) : end][::-1]

    def wait(self, after: dict[str, str], seconds: float, limit: int) -> dict[str, list[Entry]]:
        with self._changed:
            self._changed.wait_for(lambda: any(self._after(key, last) for key, last in after.items()), seconds)
            found = {key: self._after(key, last)[:limit] for key, last in after.items()}
            return {key: entries for key, entries in found.items() if entries}

    def _after(self, key: str, after: str) -> list[Entry]:
        entries = self._streams.get(key, [])
        return entries[_first_from(entries, _number(after) + 1) :]

    def ping(self) -> None:
        return None

    def close(self) -> None:
        return None


class MemoryListener:
    def __init__(self) -> None:
        self._channels: set[str] = set()
        self._messages: queue.SimpleQueue[tuple[str, str | None]] = queue.SimpleQueue()

    def add(self, channel: str) -> None:
        self._channels.add(channel)
        self._messages.put((channel, None))

    def remove(self, channel: str) -> None:
        self._channels.discard(channel)

    def take(self, channel: str, key: str) -> None:
        if channel in self._channels:
            self._messages.put((channel, key))

    def next(self, seconds: float) -> tuple[str, str | None] | None:
        try:
            return self._messages.get(timeout=seconds)
        except queue.Empty:
            return None

    def close(self) -> None:
        self._channels.clear()


def _pairs(flat: list[Any]) -> dict[str, str]:
    return {str(flat[i]): str(flat[i + 1]) for i in range(0, len(flat), 2)}


def _number(entry_id: str) -> int:
    """Ids here are ``<number>-0``; "-" is before the first."""
    return int(entry_id.partition("-")[0] or 0)


def _first_from(entries: list[Entry], number: int) -> int:
    """The index of the first entry with this number or a higher one."""
    return bisect_left(entries, number, key=lambda entry: _number(entry[0]))
