"""Calls that follow what happens: events, logs of the daemons, changes. A part of ``Client``."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING

from grass.api.requests import Requests
from grass.api.streams import event_query, events_before, follow_changes, follow_pieces

if TYPE_CHECKING:
    from grass.api.client_views import EventPage
    from grass.wire.change_views import ChangePiece
    from grass.wire.daemon_line import DaemonLine
    from grass.wire.event_views import EventView


class EventCalls(Requests):
    """What happened, and what happens."""

    def events(
        self,
        follow: bool = False,
        job: str | None = None,
        limit: int = 1000,
        node: str | None = None,
        user: str | None = None,
        kind: Sequence[str] = (),
        since: float | None = None,
        text: str | None = None,
    ) -> Iterator[EventView]:
        """Yield the newest ``limit`` events, oldest first; with ``follow``, also each later event, without end.

        ``user``: only what this user did. ``kind``: only these kinds, also ``task-*``. ``since``: wall seconds.
        ``text``: only events with each of these words in the message, the kind or a name. Raises InputError.
        """
        from grass.wire.event_views import EVENT_PIECE

        query = {**event_query(job, node, user, kind, since, text), "limit": limit}
        pieces = follow_pieces(self._transport, "/v1/events", EVENT_PIECE, query, follow)
        return (event for piece in pieces for event in piece.events)

    def older_events(
        self,
        before: str,
        limit: int = 1000,
        job: str | None = None,
        node: str | None = None,
        user: str | None = None,
        kind: Sequence[str] = (),
        since: float | None = None,
        text: str | None = None,
    ) -> EventPage:
        """Return the newest ``limit`` events before the id ``before``, oldest first. ``since``: wall seconds.

        ``before`` of the answer continues; None: there are no older events. A filter that selects few events may answer
        none of them, and a ``before``: ask again. Raises InputError.
        """
        query = event_query(job, node, user, kind, since, text)
        return events_before(self._transport, query, before, limit)

    def daemon_logs(
        self,
        daemon: str | None = None,
        node: str | None = None,
        follow: bool = False,
        tail: int = 1000,
        since: float | None = None,
    ) -> Iterator[DaemonLine]:
        """Yield what the cluster's daemons logged, in the order of arrival; ``node`` is None for the master.

        For administrators: others get NotAllowedError (raises it at the first line).

        ``tail``: begin with the newest entries; at most 10,000. ``since``: wall seconds. ``follow``: then each later
        entry, without end.
        """
        from grass.wire.event_views import DAEMON_LOG_PIECE

        query = {"daemon": daemon, "node": node, "since": since, "limit": tail}
        pieces = follow_pieces(self._transport, "/v1/daemon-logs", DAEMON_LOG_PIECE, query, follow)
        return (line for piece in pieces for line in piece.lines)

    def changes(self, job: str | None = None) -> Generator[ChangePiece, None, None]:
        """Yield a snapshot of the cluster in pieces, then what changes, without end; see ``ChangePiece``.

        ``job``: instead, that job and its tasks. A piece with ``snapshot`` replaces all that was known. Raises
        UnreachableError while the cluster does not answer; call it again for a new snapshot.
        """
        return follow_changes(self._transport, job)
