"""Open sessions: grants them, finds them again (also after a restart, from the store), and refuses replays.

A session ends after an hour of the steady clock, at a reboot, or after ``MOST_CALLS``. The client then opens another.
Used by ``authentication``.
"""

from __future__ import annotations

import json
import os
import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from grass.api.sealing import KEY_BYTES, Session, decode_key, encode_key
from grass.errors import ConflictError
from grass.store.keys import SESSION_SECONDS
from grass.store.sessions import Sessions, Sighting
from grass.system.clock import boot_id

MOST_CALLS = 10_000
"""Calls of one session, at most, because the id of each is remembered."""
MOST_KNOWN = 128
"""Sessions in memory. Others are read from the store when they are used."""
MOST_GRANTS = 2_000
"""Sessions granted to one key within ``SESSION_SECONDS``, at most."""


@dataclass
class Known:
    """A session in memory. ``record``: as stored. ``seen``: ids of its calls."""

    session: Session
    user: str
    key_id: str
    until: float
    """Steady time at which it ends."""
    record: str
    seen: set[str] = field(default_factory=set)


class OpenSessions:
    """The sessions of all users. Safe for several threads."""

    def __init__(self, store: Sessions) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Known] = OrderedDict()
        self._grants: dict[str, tuple[float, int]] = {}

    def grant(self, user: str, key_id: str, now: float) -> Session:
        """Return a new session, which is stored already. Raises ConflictError for a key that asks for too many."""
        self._count(key_id, now)
        session = Session(os.urandom(16).hex(), os.urandom(KEY_BYTES))
        content = {"key": encode_key(session.key), "user": user, "key_id": key_id}
        record = json.dumps({**content, "boot": boot_id(), "until": now + SESSION_SECONDS})
        self._store.add(session.id, record)
        with self._lock:
            self._remember(Known(session, user, key_id, now + SESSION_SECONDS, record))
        return session

    def find(self, session: str, now: float) -> Known | None:
        """Return a session that has not ended, or None."""
        with self._lock:
            known = self._known.get(session)
        if known is None:
            known = _read(session, self._store.find(session))
            if known is not None:
                with self._lock:
                    known = self._known.get(session) or self._remember(known)
        if known is None or now >= known.until or len(known.seen) >= MOST_CALLS:
            return None
        return known

    def admit(self, sighting: Sighting, *, reads: bool, takes_id: bool) -> bool:
        """Remember the call. Return False if it is a replay, or if its session is not known.

        Ids of calls that only read are kept in memory alone. Replaying one after a restart is harmless: only the
        original sender can decrypt the reply."""
        with self._lock:
            known = self._known.get(sighting.session)
            if known is None or sighting.request_id in known.seen:
                return False
            known.seen.add(sighting.request_id)
        return reads or takes_id or self._store.first_sight(sighting)

    def _remember(self, known: Known) -> Known:
        self._known[known.session.id] = known
        while len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)
        return known

    def _count(self, key_id: str, now: float) -> None:
        with self._lock:
            begun, count = self._grants.get(key_id, (now, 0))
            if now - begun >= SESSION_SECONDS:
                begun, count = now, 0
            if count >= MOST_GRANTS:
                raise ConflictError(
                    f"too many sessions: more than {MOST_GRANTS} with this key within an hour; try again later"
                )
            self._grants[key_id] = (begun, count + 1)


def _read(session: str, record: str | None) -> Known | None:
    if record is None:
        return None
    content = json.loads(record)
    if content["boot"] != boot_id():  # steady times of another boot have no meaning
        return None
    shared = Session(session, decode_key(content["key"]))
    return Known(shared, content["user"], content["key_id"], content["until"], record)
