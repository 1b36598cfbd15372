"""Streams that survive a broken connection: events, and waiting for a job. Used by ``Client``.

Each resumes where the last connection stopped: events by their id."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, TypeVar

from msgspec import UNSET

from grass.api.plain import plain_scalar
from grass.api.transport import StreamCutError, Transport, with_query
from grass.errors import InputError, WaitTimeoutError
from grass.system import clock
from grass.wire.waits import LONGEST_STREAM

if TYPE_CHECKING:
    from grass.api.client_views import EventPage
    from grass.wire.change_views import ChangePiece
    from grass.wire.codec import Form
    from grass.wire.event_views import DaemonLogPiece, EventPiece
    from grass.wire.job_views import JobView

    P = TypeVar("P", EventPiece, DaemonLogPiece)

_FOR_EVER = 1e9
"""Seconds; longer timeouts count as this."""
_CUT = 0.1
"""Seconds to wait before asking again a server that broke a stream off."""
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
    on_progress: Callable[[JobView], object] | None,
) -> JobView:
    """Wait until the job has ended and return its view. Raises WaitTimeoutError after ``timeout`` seconds."""
    from grass.wire.job_views import WAITED

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
                for piece in map(WAITED.convert, pieces):
                    resumed = True
                    view, asked = piece.job, clock.steady()
                    pause = 0.0 if piece.pause is UNSET else piece.pause
                    job = view.id  # stay with this run if a new one gets the name
                    if on_progress is not None:
                        on_progress(view)
                    if clock.steady() - asked > _SLOW:
                        break  # the buffered views are old: request the present one
        except StreamCutError:
            pause = _CUT
        if view is not None and view.state.ended:
            return view
        left = None if until is None else until - clock.steady()
        if left is not None and left <= 0:
            raise WaitTimeoutError(f"job {view.name if view else job} has not ended after {timeout:g} s; it goes on")
        clock.sleep(pause if left is None else min(pause, left))
