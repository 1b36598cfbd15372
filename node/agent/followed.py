"""One attempt whose output is shipped: how far each stream is, what can be read next, what is remembered on disk.

Only the shipper's thread calls these. They never raise for what a task does to its own files: a file that cannot be
read has nothing to ship.
"""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

from node.agent.cutting import cut

HOLD = 0.5
"""Seconds that the beginning of a line waits for the rest of it."""
FIRST_LOOK, LAST_LOOK = 0.1, 0.5
"""Seconds between two looks at a file: a tenth of its silence, within these. A line has one second to appear."""
STORE_EVERY, STORE_BYTES = 5.0, 1 << 20
"""Offsets are stored after so many seconds, or so many bytes but not within a second. The rest would be sent twice."""
_OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC

log = logging.getLogger(__name__)


class Stream:
    """``stdout`` or ``stderr`` of one attempt. ``offset``: acknowledged by the collector. ``limit``: final size."""

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self.name = name
        self.offset = 0
        self.limit: int | None = None
        self.more = False
        """There was more than the last ``read`` had room for."""
        self.held: tuple[int, float] | None = None
        """Offset of a line that has not ended, and since when it waits."""

    def read(self, room: int, now: float) -> list[bytes]:
        """The next blocks, at most ``room`` bytes of them; [] when there is nothing to send yet."""
        data, at_end = self._bytes(room)
        flush = self.held is not None and self.held[0] == self.offset and now - self.held[1] >= HOLD
        last = self.limit is not None and at_end
        blocks, start = [], 0
        while (stop := cut(data, start, flush=flush, end=last)) > start:
            blocks.append(data[start:stop])
            start = stop
        self.more = bool(blocks) and not at_end
        if start == len(data):
            self.held = None
        elif not (self.held and self.held[0] == self.offset + start):
            self.held = (self.offset + start, now)
        return blocks

    def _bytes(self, room: int) -> tuple[bytes, bool]:
        """What lies beyond ``offset``, and whether that is all there is. A final size that is not there is cut down."""
        try:
            wanted = self.path.stat().st_size if self.limit is None else self.limit
            if wanted <= self.offset:
                return b"", True
            data = self._pread(min(wanted - self.offset, room))
        except OSError as error:
            if self.limit is not None or not isinstance(error, FileNotFoundError):
                log.warning("%s: cannot be read (%s); its log ends at byte %d", self.path, error, self.offset)
            data, wanted = b"", self.offset
        if not data:
            if self.limit is not None:
                self.limit = self.offset
            return b"", True
        return data, self.offset + len(data) >= wanted

    def _pread(self, size: int) -> bytes:
        descriptor = os.open(self.path, _OPEN)
        try:
            return os.pread(descriptor, size, self.offset)
        finally:
            os.close(descriptor)

    @property
    def finished(self) -> bool:
        return self.limit is not None and self.offset >= self.limit


class Followed:
    """One attempt. ``ticket``: the one entry in the shipper's queue that is valid for it."""

    def __init__(self, key: str, directory: Path, prefix: str = "") -> None:
        job_id, task, attempt = key.rsplit("/", 2)
        self.key = key
        self.tag = f"grass.{job_id}.{task}"
        self.attempt = int(attempt)
        self.streams = tuple(Stream(directory / f"{prefix}{name}", name) for name in ("stdout", "stderr"))
        self.sizes: dict[str, int] | None = None
        self.ticket = -1
        self._file = directory / f"{prefix}shipped"
        self._restored = False
        self._grown = 0.0
        self._unstored = 0
        self._stored_at = 0.0

    def restore(self, now: float) -> None:
        """Goes on where the last shipper of this attempt stopped. A file that makes no sense means: from the start."""
        if self._restored:
            return
        self._restored = True
        self._grown = self._stored_at = now
        try:
            offsets = json.loads(self._file.read_bytes())
            for stream in self.streams:
                stream.offset = max(0, int(offsets[stream.name]))
        except (OSError, ValueError, KeyError, TypeError):
            for stream in self.streams:
                stream.offset = 0

    def end(self) -> None:
        """Takes over the final sizes, once the shipper was told."""
        if self.sizes is not None:
            for stream in self.streams:
                if stream.limit is None:
                    stream.limit = self.sizes.get(stream.name, 0)

    def advance(self, stream: Stream, size: int, now: float) -> None:
        stream.offset += size
        self._unstored += size
        self._grown = now

    def next_look(self, now: float) -> float:
        """When to look again, after the streams were read."""
        if any(stream.more or stream.limit is not None for stream in self.streams):
            return now
        due = now + min(max((now - self._grown) / 10, FIRST_LOOK), LAST_LOOK)
        held = [max(stream.held[1] + HOLD, now + FIRST_LOOK) for stream in self.streams if stream.held]
        return min([due, *held])

    @property
    def finished(self) -> bool:
        return all(stream.finished for stream in self.streams)

    def unstored(self) -> bool:
        return self._unstored > 0

    def store_due(self, now: float) -> bool:
        waited = now - self._stored_at
        return self._unstored > 0 and (waited >= STORE_EVERY or (waited >= 1 and self._unstored >= STORE_BYTES))

    def store(self, now: float) -> None:
        """By rename, so that it is whole or not there. Not being able to store costs a resend, nothing more."""
        self._stored_at = now
        offsets = {stream.name: stream.offset for stream in self.streams}
        try:
            new = self._file.with_suffix(".new")
            new.write_text(json.dumps(offsets))
            new.replace(self._file)
            self._unstored = 0
        except OSError as error:
            log.debug("%s: cannot be written: %s", self._file, error)
