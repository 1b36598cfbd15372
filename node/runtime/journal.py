"""The shepherd's journal: what its successor must know of every attempt.

An append-only file of JSON lists. Written data survives a killed process, so single writes are not synced. ``sync``,
called about once a second, limits what a power cut can take. Used by ``adoption``, ``endings``, ``shepherd`` and
``upkeep``.

    ["life", boot id, guard pid]              a shepherd began to write
    ["i", key]                                intent: is about to be spawned
    ["s", key, pid, began, returned, wall, launch]   was spawned
    ["l", key, group, memory, cpu]            its control group and limits; written before "s", if it has some
    ["k", key, kill_at, reason]               was asked to stop
    ["m", key, code, signal, wall]            its first process ended; written before that process is reaped
    ["e", key, code, signal, reason, wall, sizes, spent]   the attempt has ended; earlier versions wrote no ``spent``
    ["f", [keys]]                             was forgotten
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from grass.system import disk
from node.runtime.attempts import Attempt
from node.runtime.frames import pack
from node.runtime.shepherd_messages import Spent

COMPACT_AT = 4 << 20
"""Bytes beyond which a journal is rewritten if most of it is obsolete."""
RESERVE = 1 << 20
"""Bytes of the disk that are allocated behind the end of the file: what ends is recorded also when the disk is full."""

log = logging.getLogger(__name__)


class Past(NamedTuple):
    """The content of a journal. ``guard``: pid of the parent of the last shepherd."""

    boot_id: str
    guard: int
    attempts: dict[str, Attempt]


def replay(path: Path) -> Past:
    """Return what an earlier shepherd wrote. Torn lines are left out."""
    boot_id, guard = "", 0
    attempts: dict[str, Attempt] = {}
    for entry in _entries(path):
        match entry:
            case ["life", boot_id, guard]:
                pass
            case ["f", keys]:
                for key in keys:
                    attempts.pop(key, None)
            case ["i", key]:
                attempts[key] = Attempt(key)
            case [_, key, *_]:
                _apply(attempts.setdefault(key, Attempt(key)), entry)
    return Past(boot_id, guard, attempts)


def _entries(path: Path) -> Iterable[list[Any]]:
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return
    for line in lines:
        try:
            yield json.loads(line)
        except ValueError:  # a line torn by a power cut, or the empty end
            continue


def _apply(attempt: Attempt, entry: list[Any]) -> None:
    match entry:
        case ["s", _, pid, began, returned, wall, launch]:
            attempt.pid, attempt.began, attempt.returned, attempt.started = pid, began, returned, wall
            attempt.launch = launch
        case ["l", _, group, memory, cpu]:
            attempt.group, attempt.memory, attempt.cpu = group, memory, cpu
        case ["k", _, kill_at, reason]:
            attempt.stopping, attempt.kill_at, attempt.reason = True, kill_at, reason
        case ["m", _, code, signal, wall]:
            attempt.code, attempt.signal, attempt.main_ended = code, signal, wall
        case ["e", _, code, signal, reason, wall, sizes, *spent]:
            attempt.code, attempt.signal, attempt.reason = code, signal, reason
            attempt.ended, attempt.sizes = wall, sizes
            attempt.spent = Spent(*spent[0][: len(Spent._fields)]) if spent and spent[0] else None


class Journal:
    """The journal of this shepherd. Begins with the compacted content of the old one (``rewrite``)."""

    def __init__(self, path: Path, boot_id: str, guard: int, compact_at: int = COMPACT_AT) -> None:
        self._compact_at = compact_at
        self._path = path
        self._life = ["life", boot_id, guard]
        self._descriptor = -1
        self._size = 0
        self._floor = 0
        self._buffer: list[bytes] = []
        self._dirty = False

    def add(self, *entry: Any) -> None:
        """Add an entry that the next ``flush`` writes."""
        self._buffer.append(pack(entry))

    def write(self, *entry: Any) -> bool:
        """Write an entry now, after those that were added before. Returns as ``flush``."""
        self._buffer.append(pack(entry))
        return self.flush()

    def flush(self) -> bool:
        """Write the added entries. False: the disk refused them (it is full); they are kept for the next call."""
        if not self._buffer:
            return True
        data = b"".join(self._buffer)
        try:
            _write_all(self._descriptor, data)
        except OSError:
            self._buffer = [b"\n", data]
            return False
        self._buffer.clear()
        self._size += len(data)
        self._dirty = True
        return True

    def sync(self) -> None:
        """Make what was written survive a power cut."""
        if self._dirty:
            try:
                os.fdatasync(self._descriptor)
            except OSError as error:
                log.error("the journal cannot be synced (%s); a power cut may lose its end", error)
            self._dirty = False
            self._keep_reserve()

    @property
    def long(self) -> bool:
        return self._size > self._compact_at and self._size > 2 * self._floor

    def rewrite(self, attempts: Iterable[Attempt]) -> None:
        """Replace the file by the present state; also opens it. Must not be called between an intent and its spawn.

        If the disk refuses the new file, the old one stays in use.
        """
        replacement = self._path.with_suffix(".new")
        lines = [pack(self._life), *(pack(entry) for attempt in attempts for entry in _history(attempt))]
        data = b"".join(lines)
        descriptor = _open(replacement, os.O_TRUNC)
        try:
            _write_all(descriptor, data)
            os.fdatasync(descriptor)
            replacement.replace(self._path)
        except OSError as error:
            log.error("cannot rewrite the journal (%s); the old one stays in use", error)
            os.close(descriptor)
            if self._descriptor < 0:
                self._descriptor = _open(self._path)
                self._size = os.fstat(self._descriptor).st_size
                self._buffer = [b"\n", pack(self._life)]
            self._floor = self._size
            return
        self.close()
        self._descriptor = descriptor
        self._size = self._floor = len(data)
        self._buffer.clear()
        self._keep_reserve()

    def _keep_reserve(self) -> None:
        with suppress(OSError):  # the disk is full now, or its file system cannot do that
            info = os.fstat(self._descriptor)
            if info.st_blocks * 512 - info.st_size < RESERVE // 2:
                disk.allocate(self._descriptor, info.st_size, RESERVE)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _history(attempt: Attempt) -> Iterable[tuple[Any, ...]]:
    key = attempt.key
    if attempt.pid is not None:
        if attempt.group:
            yield "l", key, attempt.group, attempt.memory, attempt.cpu
        yield "s", key, attempt.pid, attempt.began, attempt.returned, attempt.started, attempt.launch
    if attempt.stopping:
        yield "k", key, attempt.kill_at, attempt.reason
    if attempt.main_ended is not None:
        yield "m", key, attempt.code, attempt.signal, attempt.main_ended
    if attempt.ended is not None:
        ended = (attempt.code, attempt.signal, attempt.reason, attempt.ended, attempt.sizes, attempt.spent)
        yield "e", key, *ended


def _open(path: Path, flags: int = 0) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | flags, 0o600)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
