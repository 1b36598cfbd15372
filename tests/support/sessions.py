"""A session in the store, for tests that submit without an API server."""

from __future__ import annotations

from grass.store.api_store import ApiStore
from grass.store.sessions import Sighting
from grass.system.entropy import request_id as new_id

_SESSION, _RECORD = "0" * 32, "{}"


def sighting(store: ApiStore, request_id: str | None = None) -> Sighting:
    """Return a request of the session, by default a request that nobody has seen."""
    store.sessions.add(_SESSION, _RECORD)
    return Sighting(_SESSION, _RECORD, request_id or new_id())
