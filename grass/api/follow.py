"""Streams that outlive a connection: events by their id, logs by how much of each attempt's output was read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from grass import clock
from grass.api.transport import StreamCutError, Transport, with_query

_LINE_FIELDS = ("task", "attempt", "stream", "time", "text", "newline")


def follow_events(
    transport: Transport, query: Mapping[str, str | None], limit: int, follow: bool
) -> Iterator[dict[str, Any]]:
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


def follow_logs(transport: Transport, path: str, query: Mapping[str, Any], follow: bool) -> Iterator[dict[str, Any]]:
    """Lines of ``POST /v1/jobs/{job}/logs``. What the server calls a cursor is merged and sent back, not understood."""
    cursor: dict[str, dict[str, int]] | None = None
    job_id: str | None = None
    while True:
        more, pause = follow, 0.0
        try:
            for piece in transport.stream(
                "POST", path, {**query, "follow": follow, "job_id": job_id, "cursor": cursor}
            ):
                job_id, more, pause = piece["job_id"], piece["open"], piece.get("pause", 0.0)
                yield from (dict(zip(_LINE_FIELDS, line, strict=True)) for line in piece["lines"])
                cursor = cursor or {}
                for task, places in piece["cursor"].items():
                    cursor.setdefault(task, {}).update(places)
            if not more:
                return
        except StreamCutError:
            pass
        clock.sleep(pause)
