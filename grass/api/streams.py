"""Streams that survive a broken connection: events, logs, and waiting for a job. Used by ``ApiClient``.

Each resumes where the last connection stopped: events by their id, logs by the position in each attempt's output."""

from __future__ import annotations

import re
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import UNSET

from grass import clock
from grass.api.plain import plain_scalar
from grass.api.transport import StreamCutError, Transport, View, with_query
from grass.errors import InputError, WaitTimeoutError
from grass.model.amounts import show_memory
from grass.model.lifecycle import JobState
from grass.wire.waits import LONGEST_STREAM

if TYPE_CHECKING:
    from grass.api.client_views import EventPage
    from grass.wire.change_views import ChangePiece
    from grass.wire.codec import Form
    from grass.wire.event_views import DaemonLogPiece, EventPiece

    P = TypeVar("P", EventPiece, DaemonLogPiece)

_FOR_EVER = 1e9
"""Seconds; longer timeouts count as this."""
_CUT = 0.1
"""Seconds to wait before asking again a server that broke a stream off."""
_SEARCH = 40.0
"""Seconds that the server may take to find the tail of a long log."""
_SLOW = 0.2
"""Seconds between two views of the server. A caller that takes longer for one would fall behind."""


def event_query(
    job: str | None,
    node: str | None,
    user: str | None,
    kind: str | Sequence[str],
    since: float | None,
    text: str | None,
) -> dict[str, str | float | None]:
    """Return the query parameters that select events."""
    kinds = kind if isinstance(kind, str) else ",".join(kind)
    return {"job": job, "node": node, "user": user, "kind": kinds or None, "since": since, "text": text}


def events_before(transport: Transport, query: Mapping[str, str | float | None], before: str, limit: int) -> EventPage:
    """Return one page of ``GET /v1/events``."""
    from grass.api.client_views import EventPage
    from grass.wire.event_views import EVENT_PIECE

    target = with_query("/v1/events", {**query, "limit": limit, "before": before})
    with closing(transport.stream("GET", target)) as pieces:
        *_, last = pieces
    piece = EVENT_PIECE.convert(last)
    return EventPage(piece.events, None if piece.before is UNSET else piece.before)


def follow_pieces(
    transport: Transport, path: str, form: Form[P], query: Mapping[str, str | float | None], follow: bool
) -> Iterator[P]:
    """Yield the pieces of a stream that have ``after``, such as those with events. With ``follow`` it never ends."""
    after: str | None = None
    while True:
        target = with_query(path, {**query, "after": after, "follow": follow})
        pause = 0.0
        try:
            for piece in map(form.convert, transport.stream("GET", target, resumed=after is not None)):
                after, pause = piece.after or after, 0.0 if piece.pause is UNSET else piece.pause
                yield piece
            if not follow:
                return
        except StreamCutError:
            pass
        clock.sleep(pause)


def follow_changes(transport: Transport, job: str | None) -> Generator[ChangePiece, None, None]:
    """Yield the pieces of ``GET /v1/changes``, over as many connections as needed. Never ends.

    A cursor is sent back only once its snapshot is complete.
    """
    from grass.wire.change_views import CHANGE_PIECE

    after: str | None = None
    while True:
        pause = _CUT
        try:
            target = with_query("/v1/changes", {"after": after, "job": job})
            with closing(transport.stream("GET", target, resumed=after is not None)) as pieces:
                for piece in map(CHANGE_PIECE.convert, pieces):
                    after = piece.cursor if piece.complete else None
                    pause = 0.0 if piece.pause is UNSET else piece.pause
                    yield piece
        except StreamCutError:
            pass
        clock.sleep(pause)


def wait_for_job(
    transport: Transport,
    path_of: Callable[[str], str],
    job: str,
    timeout: float | None,
    on_progress: Callable[[View], object] | None,
) -> View:
    """Wait until the job has ended and return its view. Raises WaitTimeoutError after ``timeout`` seconds."""
    timeout = plain_scalar(timeout)
    if timeout is not None and (not isinstance(timeout, (int, float)) or timeout != timeout):  # not a number
        raise InputError(f"timeout: must be seconds, got {timeout!r}")
    until = None if timeout is None else clock.steady() + min(timeout, _FOR_EVER)
    resumed = False
    while True:
        left = None if until is None else max(0.0, until - clock.steady())
        most = None if left is None else f"{min(left, LONGEST_STREAM):.3f}"
        query = {"timeout": most, "progress": on_progress is not None}
        view, pause = None, 0.0
        try:
            with closing(transport.stream("GET", with_query(path_of(job), query), resumed=resumed)) as pieces:
                for piece in pieces:
                    resumed = True
                    view, pause, asked = piece["job"], piece.get("pause", 0.0), clock.steady()
                    job = view["id"]  # stay with this run if a new one gets the name
                    if on_progress is not None:
                        on_progress(view)
                    if clock.steady() - asked > _SLOW:
                        break  # the buffered views are old: request the present one
        except StreamCutError:
            pause = _CUT
        if view is not None and JobState(view["state"]).ended:
            ended: View = view
            return ended
        left = None if until is None else until - clock.steady()
        if left is not None and left <= 0:
            raise WaitTimeoutError(f"job {view['name'] if view else job} has not ended after {timeout:g} s; it goes on")
        clock.sleep(pause if left is None else min(pause, left))


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
    late: Callable[[], object] | None = None
    """Called at the end if some output has not reached the log collector."""

    @property
    def narrows(self) -> bool:
        """Return whether lines are dropped here, so that the server cannot count them."""
        return self.grep is not None or self.stream is not None or self.tasks is not None

    def wants(self, run: Sequence[Any]) -> bool:
        """Return whether this run of output is of a task and a stream that were asked for."""
        return (self.stream is None or run[2] == self.stream) and (self.tasks is None or run[0] in self.tasks)


def read_logs(transport: Transport, path_of: Callable[[str], str], job: str, query: LogQuery) -> Iterator[View]:
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
    pieces = _noticed(_log_pieces(transport, path_of, job, {**body, "tail": server_tail}), query.late)
    if query.tail is None or (query.follow and server_tail is not None):
        return _matching(pieces, pattern, query)
    return _last(pieces, pattern, query)


def _noticed(pieces: Iterator[View], late: Callable[[], object] | None) -> Iterator[View]:
    for piece in pieces:
        yield piece
        if late is not None and piece.get("late"):
            late()


def read_log_batches(
    transport: Transport, path_of: Callable[[str], str], job: str, query: LogQuery
) -> Generator[list[View], None, None]:
    """Yield the lines of each piece; an empty list every few seconds while nothing comes. ``query.grep`` is unused."""
    body = {"component": query.component, "index": query.index, "since": query.since, "follow": query.follow}
    for piece in _log_pieces(transport, path_of, job, {**body, "tail": query.tail}):
        yield list(_matching(iter([piece]), None, query))


def _matching(pieces: Iterator[View], pattern: re.Pattern[str] | None, query: LogQuery) -> Iterator[View]:
    joined = query.joined and pattern is None and query.tail is None
    for piece in pieces:
        for run in filter(query.wants, piece["lines"]):
            for record in [_record(*run)] if joined else _records(*run):
                if pattern is None:
                    yield record
                elif pattern.search(record["text"]):
                    yield {**record, "newline": True}  # the rest of a long line may not match


def _records(task: str, attempt: int, stream: str, time: float, text: str, newline: bool, lost: int) -> Iterator[View]:
    """Yield the lines of one run of output."""
    *whole, last = text.split("\n")
    for line in whole:
        yield _record(task, attempt, stream, time, line, True, lost)
        lost = 0
    yield _record(task, attempt, stream, time, last, newline, lost)


def _record(task: str, attempt: int, stream: str, time: float, text: str, newline: bool, lost: int) -> View:
    return {
        "task": task,
        "attempt": attempt,
        "stream": stream,
        "time": time,
        "text": text,
        "newline": newline,
        "lost": lost,
    }


def gap_note(lost: int) -> str:
    """Return the line that stands for output that is missing before another line."""
    return (
        f"[{show_memory(lost)} of output are missing here: a task that prints more than `output: {{limit: SIZE}}` of "
        "its job file keeps the beginning and the newest part]"
    )


def _last(pieces: Iterator[View], pattern: re.Pattern[str] | None, query: LogQuery) -> Iterator[View]:
    kept: deque[View] = deque(maxlen=query.tail)
    for piece in pieces:
        kept.extend(_matching(iter([piece]), pattern, query))
        if query.follow and piece["live"]:
            break
    yield from kept
    yield from _matching(pieces, pattern, query)


def _log_pieces(
    transport: Transport, path_of: Callable[[str], str], job: str, body: dict[str, object]
) -> Iterator[View]:
    """Yield the pieces of ``POST /v1/jobs/{job}/logs``, over as many connections as needed.

    The server's ``cursor`` and ``before`` are opaque: they are kept and sent back.
    """
    cursor: dict[str, dict[str, int]] = {}
    while True:
        pause = 0.0
        try:
            silence = 0.0 if body["follow"] else _SEARCH
            for piece in transport.stream("POST", path_of(job), body, silence=silence, resumed=bool(cursor)):
                yield piece
                if not piece["open"]:
                    return
                for task, positions in piece["cursor"].items():
                    cursor.setdefault(task, {}).update(positions)
                body = {**body, "cursor": cursor, "before": piece.get("before", body.get("before"))}
                job, pause = piece["job_id"], piece.get("pause", 0.0)  # stay with this run if a new one gets the name
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
