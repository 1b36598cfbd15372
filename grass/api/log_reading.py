"""Reading the log of a job, over as many connections as needed. Used by ``Client``, the CLI and the dashboard.

Each connection resumes at the position in each attempt's output where the last one stopped.
"""

from __future__ import annotations

import re
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace

from msgspec import UNSET, structs

from grass.api.client_views import LogLine
from grass.api.plain import plain_scalar
from grass.api.transport import StreamCutError, Transport
from grass.errors import InputError
from grass.model.amounts import show_memory
from grass.system import clock
from grass.wire.log_views import LOG_PIECE, LogLines, LogPiece

_SEARCH = 40.0
"""Seconds that the server may take to find the tail of a long log."""


@dataclass(frozen=True)
class LogQuery:
    component: str | None
    index: int | None
    tail: int | None
    since: float | None
    grep: str | None
    follow: bool
    stream: str | None = None
    tasks: frozenset[str] | None = None
    """Only of these; None: of all."""
    joined: bool = False
    """Whether a record may have several lines: much faster, and only without a pattern."""
    unfinished: bool = False
    """Whether what was written of a line comes before the line has ended. Only without a pattern."""
    late: Callable[[], object] | None = None
    """Called at the end if some output has not reached the log collector."""

    @property
    def narrows(self) -> bool:
        """Return whether lines are dropped here, so that the server cannot count them."""
        return self.grep is not None or self.stream is not None or self.tasks is not None

    def wants(self, run: LogLines) -> bool:
        """Return whether this run of output is of a task and a stream that were asked for."""
        return (self.stream is None or run[2] == self.stream) and (self.tasks is None or run[0] in self.tasks)


def read_logs(transport: Transport, path_of: Callable[[str], str], job: str, query: LogQuery) -> Iterator[LogLine]:
    """Yield the lines that ``query`` selects. Raises InputError for a bad pattern, before anything is sent.

    Patterns are matched here. The tail of matching lines, and of a log that is not followed, is taken here as well.
    """
    pattern = _compiled(query.grep)
    query = replace(query, tail=plain_scalar(query.tail))
    if query.tail is not None and not (isinstance(query.tail, int) and 0 <= query.tail <= sys.maxsize):
        raise InputError(f"tail: must be a whole number from 0 to {sys.maxsize}, got {query.tail!r}")
    if query.stream not in (None, "stdout", "stderr"):
        raise InputError(f"stream: must be stdout or stderr, got {query.stream!r}")
    server_tail = None if query.narrows else query.tail
    body = {"component": query.component, "index": query.index, "since": query.since, "follow": query.follow}
    if query.follow and query.unfinished and pattern is None:
        body["unfinished"] = True
    pieces = _noticed(_log_pieces(transport, path_of, job, {**body, "tail": server_tail}), query.late)
    if query.tail is None or (query.follow and server_tail is not None):
        return _matching(pieces, pattern, query)
    return _last(pieces, pattern, query)


def _noticed(pieces: Iterator[LogPiece], late: Callable[[], object] | None) -> Iterator[LogPiece]:
    for piece in pieces:
        yield piece
        if late is not None and piece.late is True:
            late()


def read_log_batches(
    transport: Transport, path_of: Callable[[str], str], job: str, query: LogQuery
) -> Generator[list[LogLine], None, None]:
    """Yield the lines of each piece; an empty list every few seconds while nothing comes. ``query.grep`` is unused."""
    body = {"component": query.component, "index": query.index, "since": query.since, "follow": query.follow}
    for piece in _log_pieces(transport, path_of, job, {**body, "tail": query.tail}):
        yield list(_matching(iter([piece]), None, query))


def _matching(pieces: Iterator[LogPiece], pattern: re.Pattern[str] | None, query: LogQuery) -> Iterator[LogLine]:
    joined = query.joined and pattern is None and query.tail is None
    for piece in pieces:
        for run in filter(query.wants, piece.lines):
            for record in [LogLine(*run)] if joined else _records(*run):
                if pattern is None:
                    yield record
                elif pattern.search(record.text):
                    yield structs.replace(record, newline=True)  # the rest of a long line may not match


def _records(
    task: str, attempt: int, stream: str, time: float, text: str, newline: bool, lost: int
) -> Iterator[LogLine]:
    """Yield the lines of one run of output."""
    *whole, last = text.split("\n")
    for line in whole:
        yield LogLine(task, attempt, stream, time, line, True, lost)
        lost = 0
    yield LogLine(task, attempt, stream, time, last, newline, lost)


def gap_note(lost: int) -> str:
    """Return the line that stands for output that is missing before another line."""
    return (
        f"[{show_memory(lost)} of output are missing here: a task that prints more than `output: {{limit: SIZE}}` of "
        "its job file keeps the beginning and the newest part]"
    )


def _last(pieces: Iterator[LogPiece], pattern: re.Pattern[str] | None, query: LogQuery) -> Iterator[LogLine]:
    kept: deque[LogLine] = deque(maxlen=query.tail)
    for piece in pieces:
        kept.extend(_matching(iter([piece]), pattern, query))
        if query.follow and piece.live:
            break
    yield from kept
    yield from _matching(pieces, pattern, query)


def _log_pieces(
    transport: Transport, path_of: Callable[[str], str], job: str, body: dict[str, object]
) -> Iterator[LogPiece]:
    """Yield the pieces of ``POST /v1/jobs/{job}/logs``, over as many connections as needed.

    The server's ``cursor`` and ``before`` are opaque: they are kept and sent back.
    """
    cursor: dict[str, dict[str, int]] = {}
    while True:
        pause = 0.0
        try:
            silence = 0.0 if body["follow"] else _SEARCH
            stream = transport.stream("POST", path_of(job), body, silence=silence, resumed=bool(cursor))
            for piece in map(LOG_PIECE.convert, stream):
                yield piece
                if not piece.open:
                    return
                for task, positions in piece.cursor.items():
                    cursor.setdefault(task, {}).update(positions)
                before = body.get("before") if piece.before is UNSET else piece.before
                body = {**body, "cursor": cursor, "before": before}
                pause = 0.0 if piece.pause is UNSET else piece.pause
                job = piece.job_id  # stay with this run if a new one gets the name
        except StreamCutError:
            pass
        clock.sleep(pause)


def _compiled(grep: str | None) -> re.Pattern[str] | None:
    if grep is None:
        return None
    if not isinstance(grep, str):
        raise InputError(f"grep: must be text, got {grep!r}")
    try:
        return re.compile(grep)
    except (re.error, OverflowError, RecursionError) as error:
        raise InputError(f"grep: {grep!r} is not a valid regular expression: {error}") from None
