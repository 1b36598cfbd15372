"""Clients' sessions in the store, and the ids of their requests. Part of ``ApiStore``; decides nothing.

A request's id is kept longer than its session, by the same clock. If a jump of the clock expires the ids early, the
session has expired as well, and a request without its session is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from grass.store.backend import Backend, Guard, Op
from grass.store.keys import SESSION_SECONDS, Keys


@dataclass(frozen=True)
class Sighting:
    """One request of a session. ``record``: the session's record in the store."""

    session: str
    record: str
    request_id: str


class Sessions:
    """Encryption sessions, kept in the store so that a restarted API server knows them."""

    def __init__(self, backend: Backend, keys: Keys) -> None:
        self._backend = backend
        self._keys = keys

    def add(self, session: str, record: str) -> None:
        self._backend.apply([("SETEX", self._keys.session(session), SESSION_SECONDS, record)], urgent=True)

    def find(self, session: str) -> str | None:
        return self._backend.get(self._keys.session(session))

    def first_sight(self, sighting: Sighting) -> bool:
        """Record the request. False: it was seen before, or its session has ended."""
        return self._backend.apply(self.ops(sighting), self.guards(sighting), urgent=True) == 0

    def guards(self, sighting: Sighting) -> list[Guard]:
        """Return the guards, for use with ``ops``, of a step that must happen once: the session exists, the request is
        new."""
        seen = self._keys.session_request(sighting.session, sighting.request_id)
        return [("equals", self._keys.session(sighting.session), sighting.record), ("no-key", seen, "")]

    def ops(self, sighting: Sighting) -> list[Op]:
        seen = self._keys.session_request(sighting.session, sighting.request_id)
        return [("SETEX", seen, 2 * SESSION_SECONDS, "1")]
