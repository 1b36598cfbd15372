"""The shepherd's journal: what its successor must know of every attempt.

An append-only file of entries (``journal_entries``). Written data survives a killed process, so single writes are not
synced. ``sync``, called about once a second, limits what a power cut can take. Used by ``adoption``, ``endings``,
``shepherd`` and ``upkeep``.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from grass.system import disk
from node.runtime.attempts import Attempt
from node.runtime.journal_entries import (
    Entry,
    ForgetEntry,
    IntentEntry,
    LifeEntry,
    apply_entry,
    attempt_history,
    pack,
    unpack,
)

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
            case LifeEntry(boot_id, guard):
                pass
            case ForgetEntry(keys):
                for key in keys:
                    attempts.pop(key, None)
            case IntentEntry(key):
                attempts[key] = Attempt(key)
            case _:
                apply_entry(attempts.setdefault(entry.key, Attempt(entry.key)), entry)
    return Past(boot_id, guard, attempts)


def _entries(path: Path) -> Iterable[Entry]:
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return
    for line in lines:
        try:
            entry = unpack(json.loads(line))
        except ValueError:  # a line torn by a power cut, or the empty end
            continue
        if entry is not None:
            yield entry


class Journal:
    """The journal of this shepherd. Begins with the compacted content of the old one (``rewrite``)."""

    def __init__(self, path: Path, boot_id: str, guard: int, compact_at: int = COMPACT_AT) -> None:
        self._compact_at = compact_at
        self._path = path
        self._life = LifeEntry(boot_id, guard)
        self._descriptor = -1
        self._size = 0
        self._floor = 0
        self._buffer: list[bytes] = []
        self._dirty = False

    def add(self, entry: Entry) -> None:
        """Add an entry that the next ``flush`` writes."""
        self._buffer.append(pack(entry))

    def write(self, *entries: Entry) -> bool:
        """Write entries now, after those that were added before. Returns as ``flush``."""
        self._buffer += map(pack, entries)
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
        lines = [pack(self._life), *(pack(entry) for attempt in attempts for entry in attempt_history(attempt))]
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


def _open(path: Path, flags: int = 0) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | flags, 0o600)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
