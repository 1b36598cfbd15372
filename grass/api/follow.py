"""Streams that outlive a connection: events by their id, logs by how much of each attempt's output was read."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from grass import clock
from grass.api.transport import StreamCutError, Transport, with_query
from grass.errors import InputError

Record = dict[str, Any]


def follow_events(transport: Transport, query: Mapping[str, str | None], limit: int, follow: bool) -> Iterator[Record]:
    """Events of ``GET /v1/events``. With ``follow`` it never ends."""
    after: str | None = None
    while True:
        target = with_query("/v1/events", {**query, "limit": limit, "after": after, "follow": follow})
        pause = 0.0
        try:
            for piece in transport.stream("GET", target):
                after, pause = piece["after"], piece.get("pause", 0.0)
                yield from piece["events"]
            if not follow:
                return
        except StreamCutError:
            pass
        clock.sleep(pause)


@dataclass(frozen=True)
class LogQuery:
    component: str | None
    index: int | None
    tail: int | None
    since: float | None
    grep: str | None
    follow: bool


def read_logs(transport: Transport, path_of: Callable[[str], str], job: str, query: LogQuery) -> Iterator[Record]:
    """The lines that ``query`` asks for. Raises InputError for a bad pattern, before anything is sent.

    Patterns are searched here; so is the tail of what they find, and of a log that is not followed.
    """
    pattern = _compiled(query.grep)
    if query.tail is not None and query.tail < 0:
        raise InputError(f"tail: must not be negative, got {query.tail}")
    server_tail = query.tail if pattern is None else None
    body = {"component": query.component, "index": query.index, "since": query.since, "follow": query.follow}
    pieces = _log_pieces(transport, path_of, job, {**body, "tail": server_tail})
    if query.tail is None or (query.follow and server_tail is not None):
        return _matching(pieces, pattern)
    return _last(pieces, pattern, query.tail, query.follow)


def _matching(pieces: Iterator[Record], pattern: re.Pattern[str] | None) -> Iterator[Record]:
    for piece in pieces:
        for run in piece["lines"]:
            for record in _records(*run):
                if pattern is None or pattern.search(record["text"]):
                    yield record


def _records(
    task: str, attempt: int, stream: str, time: float, text: str, newline: bool, lost: int
) -> Iterator[Record]:
    """The lines of one run."""
    *whole, last = text.split("\n")
    head = {"task": task, "attempt": attempt, "stream": stream, "time": time}
    for line in whole:
        yield {**head, "text": line, "newline": True, "lost": lost}
        lost = 0
    yield {**head, "text": last, "newline": newline, "lost": lost}


def _last(pieces: Iterator[Record], pattern: re.Pattern[str] | None, count: int, follow: bool) -> Iterator[Record]:
    kept: deque[Record] = deque(maxlen=count)
    for piece in pieces:
        kept.extend(_matching(iter([piece]), pattern))
        if follow and piece["live"]:
            break
    yield from kept
    yield from _matching(pieces, pattern)


def _log_pieces(
    transport: Transport, path_of: Callable[[str], str], job: str, body: dict[str, Any]
) -> Iterator[Record]:
    """Pieces of ``POST /v1/jobs/{job}/logs``, over as many streams as it takes.

    What the server calls ``cursor`` and ``before`` is kept and sent back, not understood.
    """
    cursor: dict[str, dict[str, int]] = {}
    while True:
        pause = 0.0
        try:
            for piece in transport.stream("POST", path_of(job), body):
                yield piece
                if not piece["open"]:
                    return
                for task, places in piece["cursor"].items():
                    cursor.setdefault(task, {}).update(places)
                body = {**body, "cursor": cursor, "before": piece.get("before", body.get("before"))}
                job, pause = piece["job_id"], piece.get("pause", 0.0)  # a new run of that name is another job
        except StreamCutError:
            pass
        clock.sleep(pause)


def _compiled(grep: str | None) -> re.Pattern[str] | None:
    if grep is None:
        return None
    try:
        return re.compile(grep)
    except (re.error, OverflowError, RecursionError) as error:
        raise InputError(f"grep: {grep!r} is no regular expression: {error}") from None
