"""The output of one attempt that is shipped: acknowledged positions, the next blocks, the offsets kept on disk.

Called by the shipper's thread, except where a method says otherwise. Nothing here raises for what a task does to its
own files: a file that cannot be read has nothing to ship.
"""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import NamedTuple

from grass.model.job import DEFAULT_OUTPUT_LIMIT
from grass.system import disk
from grass.system.atomic_file import replace_file
from grass.wire.keys import AttemptKey
from grass.wire.log_block import Stream as StreamName
from node.agent.log_blocks import block_end

LINE_WAIT = 0.5
"""Seconds that an incomplete line waits for its rest."""
FIRST_LOOK, LAST_LOOK = 0.1, 0.5
"""Seconds between two reads of a file: a tenth of the time since its last output, within these bounds. A line must be
visible within a second."""
STORE_EVERY, STORE_BYTES = 5.0, 1 << 20
"""Offsets are stored after so many seconds, or after so many bytes, at most once a second. After a crash, output behind
the stored offset is sent twice."""
TRUNCATED = b"[the task truncated its output: what was not shipped before is lost]\n"
HEAD = 256
"""Bytes from the beginning of a file that show whether it was rewritten."""
STREAMS: tuple[StreamName, StreamName] = ("stdout", "stderr")
_PAGE = 4096
_KEPT_HEAD = _PAGE
"""Bytes at the beginning of a file that stay: they show whether it was rewritten."""
KEPT_END = 1 << 14
"""Bytes at the end of a file that stay: if the task fails, they may say why."""
_LINE = 1 << 16
"""Bytes behind a hole in which the next line is looked for, so that it begins with one."""
_OPEN_TO_PUNCH = os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC

log = logging.getLogger(__name__)


class Position(NamedTuple):
    """The position in a stream. Immutable, so that other threads may read it.

    ``offset``: bytes of the stream that the collector has acknowledged; it never decreases. ``base``: offset in the
    stream at which the present content of the file begins; 0 until the task truncates the file. While ``base`` is
    beyond ``offset``, the stream continues with ``notice``. ``head``: the first bytes of the file. ``ends_line``:
    whether the last acknowledged byte ended a line.
    """

    offset: int = 0
    base: int = 0
    head: bytes = b""
    ends_line: bool = False

    @property
    def notice(self) -> bytes:
        missing = self.base - self.offset
        return (b"\n" + TRUNCATED)[-missing:] if missing > 0 else b""

    @property
    def file_offset(self) -> int:
        """Offset in the file of the next byte to send."""
        return max(0, self.offset - self.base)

    def after_truncation(self) -> Position:
        """Return the position after the task truncated the file."""
        return Position(self.offset, self.offset + len(TRUNCATED) + (not self.ends_line))

    def after(self, data: bytes) -> Position:
        """Return the position once ``data``, from the notice and the file, is acknowledged."""
        head = (
            self.head
            if self.file_offset > len(self.head)
            else self.head + data[len(self.notice) :][: HEAD - len(self.head)]
        )
        return Position(self.offset + len(data), self.base, head, data.endswith(b"\n"))


class Stream:
    """``stdout`` or ``stderr`` of one attempt. ``limit``: final size of the file.

    ``hole``: a part of the file, by its offsets, that is never sent, because more waits to be sent than is kept.
    """

    def __init__(self, path: Path, name: StreamName) -> None:
        self.path = path
        self.name = name
        self.position = Position()
        self.stored_base = 0
        self.limit: int | None = None
        self.hole: tuple[int, int] | None = None
        self._given_back = _KEPT_HEAD
        """Offset in the file up to which its content was given back to the disk."""
        self._base = 0
        """``base`` of the position that ``hole`` and ``_given_back`` belong to."""
        self.more = False
        """The last ``read`` left data because its limit was used up."""
        self.open_line: tuple[int, float] | None = None
        """Offset of an incomplete line, and the time since which it waits."""
        self._next = self.position
        self._seen: tuple[int, int] | None = None
        """Size and modification time of the file at the last read."""

    @property
    def offset(self) -> int:
        return self.position.offset

    def advance(self) -> None:
        """Note that the blocks of the last ``read`` are acknowledged."""
        self.position = self._next

    def end(self, size: int) -> None:
        """Note the final size of the file."""
        self.position = self._unless_rewritten(self.position)
        self.limit = size

    def final_offset(self, size: int) -> int:
        """Return the stream's last offset if ``size`` is the final size of the file. May be called by any thread."""
        return self._unless_rewritten(self.position).base + size

    def read(self, limit: int, now: float) -> list[bytes]:
        """Return the next blocks, at most ``limit`` bytes; [] when nothing can be sent yet."""
        data, at_end = self._bytes(limit)
        flush = self.open_line is not None and self.open_line[0] == self.offset and now - self.open_line[1] >= LINE_WAIT
        last = self.limit is not None and at_end
        blocks, start = [], 0
        while (stop := block_end(data, start, flush=flush, end=last)) > start:
            blocks.append(data[start:stop])
            start = stop
        self.more = bool(blocks) and not at_end
        self._next = self.position.after(data[:start])
        if start == len(data):
            self.open_line = None
        elif not (self.open_line and self.open_line[0] == self.offset + start):
            self.open_line = (self.offset + start, now)
        return blocks

    def _bytes(self, limit: int) -> tuple[bytes, bool]:
        """Return the data behind ``offset``, and whether it is all. Lowers a final size that the file does not
        reach."""
        try:
            wanted = self._size() if self.limit is None else self.limit
            self._skip_hole()
            at = self.position.file_offset
            if wanted <= at:
                return self.position.notice, True
            until = wanted if self.hole is None else self.hole[0]
            data, head = self._pread(min(until - at, limit), at, len(self.position.head))
        except OSError as error:
            at = wanted = self.position.file_offset
            if self.limit is not None or not isinstance(error, FileNotFoundError):
                log.warning("%s: cannot be read (%s); its log ends at byte %d", self.path, error, at)
            data, head = b"", self.position.head
        if head != self.position.head:
            # rewritten after ``_size``: the data may begin in the middle of a line
            self.position = self.position.after_truncation()
            return self._bytes(limit)
        if not data and self.limit is not None:
            self.limit = at
        return self.position.notice + data, not data or at + len(data) >= wanted

    def restore(self, offset: int, base: int, hole: tuple[int, int] | None) -> None:
        """Continue where the previous shipper stopped."""
        self.stored_base = self._base = base
        self.position, self.hole = Position(offset, base), hole

    def _forget_rewritten(self) -> None:
        """Forget the hole of a file that the task truncated or rewrote."""
        if self.position.base != self._base:
            self.hole, self._given_back, self._base = None, _KEPT_HEAD, self.position.base

    def _skip_hole(self) -> None:
        """Go on behind the hole once everything before it was sent."""
        self._forget_rewritten()
        if self.hole is not None and self.position.file_offset >= self.hole[0]:
            skipped = self.hole[1] - self.position.file_offset
            self.position = self.position._replace(offset=self.position.offset + max(0, skipped))
            self.hole = None

    def excess(self, most: int) -> tuple[int, int] | None:
        """Return the part of the file, by its offsets, to drop because more than ``most`` bytes wait; None: none.

        The beginning of the output is kept, and the newest part."""
        self._forget_rewritten()
        try:
            size, at = self.path.stat().st_size if self.limit is None else self.limit, self.position.file_offset
            kept_to = self.hole[1] if self.hole is not None else at
            if size - kept_to <= most:
                return None
            begin = at + max(0, most // 2 - self.offset) if self.hole is None else self.hole[0]
            end = size - most // 4
            line = self._pread(_LINE, end, 0)[0].find(b"\n")
        except OSError:
            return None
        begin = max(begin, _KEPT_HEAD)
        return (begin, end + line + 1) if end > begin else None

    def give_back(self, *, hole: bool) -> None:
        """Give back to the disk what the collector has, and the hole. Raises OSError: the file system cannot."""
        self._forget_rewritten()
        shipped = max(0, self.position.file_offset - KEPT_END) & ~(_PAGE - 1)
        parts = [self.hole] if hole and self.hole is not None else []
        if shipped - self._given_back >= STORE_BYTES:
            parts.append((self._given_back, shipped))
        if not parts or self._unless_rewritten(self.position) is not self.position:
            return
        descriptor = os.open(self.path, _OPEN_TO_PUNCH)
        try:
            for begin, end in parts:
                disk.punch(descriptor, begin, end)
        finally:
            os.close(descriptor)
        self._given_back = max(self._given_back, shipped)

    def _size(self) -> int:
        """Return the file's size. Detects that the task truncated or rewrote the file."""
        info = self.path.stat()
        seen, self._seen = self._seen, (info.st_size, info.st_mtime_ns)
        if info.st_size < self.position.file_offset or (
            info.st_size == self.position.file_offset and self._seen != seen
        ):
            self.position = self._unless_rewritten(self.position)
        if self.position.file_offset and not self.position.head:
            # the position was restored from disk, without its head
            self.position = self.position._replace(head=self._pread(0, 0, min(HEAD, self.position.file_offset))[1])
        return info.st_size

    def _unless_rewritten(self, position: Position) -> Position:
        """Return ``position``, or the beginning of the file if the task rewrote what was shipped."""
        if position.file_offset == 0:
            return position
        try:
            there = (
                self.path.stat().st_size >= position.file_offset
                and self._pread(0, 0, len(position.head))[1] == position.head
            )
        except OSError:
            return position
        return position if there else position.after_truncation()

    def _pread(self, size: int, at: int, head: int) -> tuple[bytes, bytes]:
        """Read ``size`` bytes from ``at``, then ``head`` bytes from the beginning, which show whether the file is the
        same."""
        descriptor = os.open(self.path, _OPEN)
        try:
            data = os.pread(descriptor, size, at) if size else b""
            return data, os.pread(descriptor, head, 0) if head else b""
        finally:
            os.close(descriptor)

    @property
    def finished(self) -> bool:
        return self.limit is not None and self.offset - self.position.base >= self.limit


class AttemptLog:
    """The log of one attempt. ``ticket``: its only valid entry in the shipper's queue."""

    def __init__(self, key: str, directory: Path, prefix: str = "") -> None:
        parsed = AttemptKey.parse(key)
        self.key = key
        self.tag = f"grass.{parsed.job_id}.{parsed.task}"
        self.attempt = parsed.attempt
        self.streams = tuple(Stream(directory / f"{prefix}{name}", name) for name in STREAMS)
        self.sizes: dict[str, int] | None = None
        self.ticket = -1
        self.output_limit = DEFAULT_OUTPUT_LIMIT
        """Bytes of each stream that may wait to be sent."""
        self.searched = False
        """Whether a readiness check reads the files, so that nothing may be given back to the disk yet."""
        self._gives_back = True
        self._file = directory / f"{prefix}shipped"
        self._restored = False
        self._grown = 0.0
        self._unstored = 0
        self._stored_at = 0.0

    def restore(self, now: float) -> None:
        """Continue where the previous shipper of this attempt stopped; from the start if its file is unreadable."""
        if self._restored:
            return
        self._restored = True
        self._grown = self._stored_at = now
        try:
            offsets = json.loads(self._file.read_bytes())
            bases = offsets.get("base", {})
            for stream in self.streams:
                offset, base = max(0, int(offsets[stream.name])), max(0, int(bases.get(stream.name, 0)))
                hole = offsets.get("hole", {}).get(stream.name)
                stream.restore(offset, base, (int(hole[0]), int(hole[1])) if hole else None)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError):
            for stream in self.streams:
                stream.restore(0, 0, None)

    def end(self) -> None:
        """Apply the final sizes once they are known."""
        if self.sizes is not None:
            for stream in self.streams:
                if stream.limit is None:
                    stream.end(self.sizes.get(stream.name, 0))

    def final_offsets(self, sizes: dict[str, int]) -> dict[str, int]:
        """Return each stream's last offset if these are the final sizes. May be called by any thread."""
        return {stream.name: stream.final_offset(sizes.get(stream.name, 0)) for stream in self.streams}

    def advance(self, stream: Stream, size: int, now: float) -> None:
        stream.advance()
        self._unstored += size
        self._grown = now

    def next_read(self, now: float) -> float:
        """Return when to read again, after the streams were read."""
        if any(stream.more or stream.limit is not None for stream in self.streams):
            return now
        due = now + min(max((now - self._grown) / 10, FIRST_LOOK), LAST_LOOK)
        open_line = [
            max(stream.open_line[1] + LINE_WAIT, now + FIRST_LOOK) for stream in self.streams if stream.open_line
        ]
        return min([due, *open_line])

    @property
    def finished(self) -> bool:
        return all(stream.finished for stream in self.streams)

    def unstored(self) -> bool:
        return self._unstored > 0

    def store_due(self, now: float) -> bool:
        waited = now - self._stored_at
        return self._unstored > 0 and (waited >= STORE_EVERY or (waited >= 1 and self._unstored >= STORE_BYTES))

    def store_bases(self, now: float) -> None:
        """Store a new base before anything is sent that counts from it: after a crash it could not be found again."""
        if any(stream.position.base != stream.stored_base for stream in self.streams):
            self.store(now)

    def store(self, now: float) -> None:
        """Store the offsets, by rename. If that fails, output may be sent twice; nothing is lost."""
        self._stored_at = now
        offsets: dict[str, object] = {stream.name: stream.offset for stream in self.streams}
        bases = {stream.name: stream.position.base for stream in self.streams}
        if any(bases.values()):
            offsets["base"] = bases
        if holes := {stream.name: stream.hole for stream in self.streams if stream.hole is not None}:
            offsets["hole"] = holes
        try:
            replace_file(self._file, json.dumps(offsets))
            self._unstored = 0
            for stream in self.streams:
                stream.stored_base = bases[stream.name]
        except OSError as error:
            log.debug("%s: cannot be written: %s", self._file, error)
            self._give_back(hole=False)  # a full disk: what is sent again from there, the collector has
        else:
            self._give_back(hole=True)

    def drop_excess(self, now: float) -> None:
        """Drop the middle of what waits, if that is more than the limit: the collector is away, or slower."""
        found = {stream: part for stream in self.streams if (part := stream.excess(self.output_limit)) is not None}
        for stream, part in found.items():
            stream.hole = part
        if found:
            self.store(now)

    def _give_back(self, *, hole: bool) -> None:
        """``hole``: also what is never sent. The next shipper must know of it."""
        if not self._gives_back or self.searched:
            return
        try:
            for stream in self.streams:
                stream.give_back(hole=hole)
        except FileNotFoundError:
            return
        except OSError as error:
            log.info("%s: shipped output stays on this node until the attempt is removed (%s)", self.key, error)
            self._gives_back = False
