"""From blocks to lines. Pure. Used by ``log_files`` and ``logs``.

Each stream of each attempt is assembled separately. Repeated blocks, or repeated parts of blocks, are dropped. A line
may span any number of blocks. A line of more than ``LONGEST`` bytes comes in pieces.
"""

from __future__ import annotations

from typing import NamedTuple

from master.collector.blocks import Block, Key

LONGEST = 1 << 20
"""Bytes of an incomplete line that are held. Beyond this, they are returned as a piece of the line."""


class LogLine(NamedTuple):
    """One line of a task's output, or a piece of a long line; or several lines that were read at once, with newlines
    between them (``joined``).

    ``text`` has no newline at its end. It is UTF-8 decoded with ``surrogateescape``: ``text.encode("utf-8",
    "surrogateescape")`` gives exactly the bytes that the task printed, and ``json.dumps`` preserves it.
    ``time``: the node's wall clock when it read the end of the line. ``newline``: false for a last line without one,
    and for each piece of a line but its last. ``lost``: bytes of the stream that are missing before this line (a power
    cut, a deleted file). ``end``: offset in the stream at which the line ends, newline included.
    """

    task: str
    attempt: int
    stream: str
    time: float
    text: str
    newline: bool = True
    lost: int = 0
    end: int = 0


class _Stream:
    """One stream. ``end``: offset of the next byte. ``begin``: where the incomplete line, or its last piece, begins.
    ``started``: whether the beginning of the incomplete line was read."""

    __slots__ = ("begin", "end", "held", "lost", "parts", "started", "time")

    def __init__(self, end: int) -> None:
        self.begin = self.end = end
        self.started = end == 0
        self.parts: list[bytes] = []
        self.held = 0
        """Bytes in ``parts``."""
        self.lost = 0
        self.time = 0.0

    def hold(self, part: bytes) -> None:
        self.parts.append(part)
        self.held += len(part)


class Assembler:
    """Assembles the lines of one task. ``from_start``: false if reading begins in the middle of the file.

    A line whose beginning was not read is returned as None. ``joined``: return the lines of a block as one, which is
    much faster. Only for readers that neither count lines nor compare their offsets.
    """

    def __init__(self, task: str, *, from_start: bool = True, joined: bool = False) -> None:
        self._task = task
        self._joined = joined
        self._from_start = from_start
        self._streams: dict[Key, _Stream] = {}
        self.held = 0
        """Bytes of incomplete lines."""
        self.disordered = False
        """Whether a block began before the end of its stream: a repeat, as a killed fluentd leaves them."""

    def end(self, attempt: int, stream: str) -> int | None:
        """Return the offset up to which a stream was read, or None if no block of it was seen."""
        known = self._streams.get((attempt, stream))
        return known.end if known else None

    def positions(self) -> dict[Key, int]:
        """Return the offset at which the last complete line of each stream, or the last piece of a line, ends."""
        return {key: known.begin for key, known in self._streams.items()}

    def unfinished(self) -> set[int]:
        """Return the attempts whose last line has no newline yet."""
        return {attempt for (attempt, _), stream in self._streams.items() if stream.held}

    def feed(self, block: Block) -> list[LogLine | None]:
        """Return the lines that the block completes. A new attempt first ends the last lines of earlier attempts."""
        stream = self._streams.get(block.key)
        lines: list[LogLine | None] = []
        if stream is None:
            lines += self._finish_before(block.attempt)
            stream = self._streams[block.key] = _Stream(0 if self._from_start else block.offset)
        self.disordered |= block.offset < stream.end
        rest = block.after(stream.end)
        if rest is None:
            return lines
        if rest.offset > stream.end:
            lines += self._flush(block.key, stream)
            stream.lost += rest.offset - stream.end
        stream.end, stream.time = rest.end, block.time
        self.held -= stream.held
        split = self._joined_lines if self._joined and stream.started else self._single_lines
        lines += split(block.key, stream, rest)
        if stream.held > LONGEST:  # blocks do not end inside a code point, so neither does a piece
            lines.append(self._line(block.key, stream, stream.end, newline=False))
        self.held += stream.held
        return lines

    def _single_lines(self, key: Key, stream: _Stream, block: Block) -> list[LogLine | None]:
        lines: list[LogLine | None] = []
        first, *others = block.data.split(b"\n")
        stream.hold(first)
        end = block.offset + len(first)
        for part in others:
            end += 1
            lines.append(self._line(key, stream, end, newline=True))
            stream.hold(part)
            end += len(part)
        return lines

    def _joined_lines(self, key: Key, stream: _Stream, block: Block) -> list[LogLine | None]:
        """Return what the block completes as one item."""
        whole, newline, unfinished = block.data.rpartition(b"\n")
        if not newline:
            stream.hold(unfinished)
            return []
        stream.hold(whole)
        line = self._line(key, stream, block.offset + len(whole) + 1, newline=True)
        stream.hold(unfinished)
        return [line]

    def finish(self, attempt: int | None = None) -> list[LogLine | None]:
        """Return the last lines without newline, of one attempt or all: nothing more can follow, or no more may be
        held."""
        return [
            line
            for key, stream in self._streams.items()
            if attempt is None or key[0] == attempt
            for line in self._flush(key, stream)
        ]

    def _finish_before(self, attempt: int) -> list[LogLine | None]:
        earlier = [(key, stream) for key, stream in self._streams.items() if key[0] < attempt]
        return [line for key, stream in earlier for line in self._flush(key, stream)]

    def _flush(self, key: Key, stream: _Stream) -> list[LogLine | None]:
        if not stream.held:
            return []
        self.held -= stream.held
        return [self._line(key, stream, stream.end, newline=False)]

    def _line(self, key: Key, stream: _Stream, end: int, *, newline: bool) -> LogLine | None:
        data = stream.parts[0] if len(stream.parts) == 1 else b"".join(stream.parts)
        stream.parts.clear()
        stream.held, stream.begin = 0, end
        if not stream.started:
            stream.started = True
            return None
        lost, stream.lost = stream.lost, 0
        text = data.decode("utf-8", "surrogateescape")
        return LogLine(self._task, key[0], key[1], stream.time, text, newline, lost, end)
