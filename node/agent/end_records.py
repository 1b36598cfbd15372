"""The node's own record of how attempts ended, for a master that was restored from an older backup.

The runtime forgets an attempt once the master has noted its end. If the master then loses what it noted, only this
record knows that the attempt ran. It is written before the end is reported, is read only after a restore, and keeps
megabytes: tens of thousands of ends. A power cut may take its last seconds. Used by ``loop``.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from grass.errors import UndecodableError
from grass.wire.codec import Form, encode
from grass.wire.task_events import Ended

MOST_BYTES = 4 << 20
"""Size of the file at which it becomes the older one of two."""

log = logging.getLogger(__name__)


class Begun(msgspec.Struct, frozen=True, tag_field="event", tag="begun"):
    """A line from which on every end is recorded. ``since``: wall seconds of this node."""

    since: float


class Restored(msgspec.Struct, frozen=True, tag_field="event", tag="restored"):
    """The desired state of the store that was restored ``at`` this time was compared with the records."""

    at: float


_LINE: Form[Begun | Restored | Ended] = Form(Begun | Restored | Ended)


@dataclass
class Past:
    """What is recorded. ``since``: from when on without gaps. ``restored``: the last restore that was taken note of."""

    since: float | None = None
    restored: float = 0.0
    ends: dict[str, Ended] = field(default_factory=dict)


class EndRecords:
    """Two files in ``folder``. When the newer is full, it replaces the older one."""

    def __init__(self, folder: Path, most_bytes: int = MOST_BYTES) -> None:
        self._path = folder / "ends.jsonl"
        self._older = folder / "ends.older.jsonl"
        self._most_bytes = most_bytes
        self._descriptor = -1
        self._pending: list[str] = []
        self._broken = False

    def add(self, event: Ended) -> None:
        """Add an end, which the next ``write`` writes."""
        self._pending.append(encode(event))

    def note_restore(self, at: float, now: float) -> None:
        self._pending.append(encode(Restored(at)))
        self.write(now)

    def write(self, now: float) -> None:
        """Write what was added. If the disk refuses, the record has a gap, which it says: older ends do not count."""
        if not self._pending:
            return
        try:
            self._open(now)
            text = "".join(f"{line}\n" for line in self._pending)
            os.write(self._descriptor, (encode(Begun(now)) + "\n" + text if self._broken else text).encode())
            self._broken = False
        except OSError as error:
            if not self._broken:
                log.error("cannot record how attempts ended (%s); a restored master may run them again", error)
            self._broken = True
        self._pending.clear()

    def begin(self, now: float) -> None:
        """Begin to record, on a node that did not yet."""
        try:
            self._open(now)
        except OSError as error:
            log.error("cannot record how attempts ended (%s); a restored master may run them again", error)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def past(self) -> Past:
        """Return what the files say. Torn lines are left out."""
        past = Past()
        for at_begin, each in (*_numbered(self._older), *_numbered(self._path)):
            match each:
                case Begun(since=since):
                    if past.since is None or not at_begin:  # a file that goes on with the older one has no gap
                        past.since = since
                case Restored(at=at):
                    past.restored = at
                case Ended():
                    past.ends[each.key] = each
        return past

    def _open(self, now: float) -> None:
        if self._descriptor >= 0 and os.fstat(self._descriptor).st_size < self._most_bytes:
            return
        self.close()
        if self._path.exists() and self._path.stat().st_size >= self._most_bytes:
            self._path.replace(self._older)
        self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        if not os.fstat(self._descriptor).st_size:
            os.write(self._descriptor, f"{encode(Begun(now))}\n".encode())


def _numbered(path: Path) -> list[tuple[bool, Begun | Restored | Ended]]:
    return [(at == 0, each) for at, each in enumerate(_lines(path))]


def _lines(path: Path) -> Iterator[Begun | Restored | Ended]:
    try:
        lines: Iterable[bytes] = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return
    for line in lines:
        try:
            yield _LINE.decode(line)
        except UndecodableError:  # torn by a power cut, or the empty end
            continue
