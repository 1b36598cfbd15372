"""The part of a master that speaks with its witness: shows it that the master lives, asks before it goes on alone.

The store refuses writes by itself while the standby is away (``min-replicas-to-write``), until the witness consents.
The rules are in ``grass.model.witness``. Used by ``standby_watch``.
"""

from __future__ import annotations

from collections.abc import Callable

from grass.config import StandbyConfig
from grass.errors import GrassError
from grass.model.witness import Record
from grass.store.keys import Keys
from grass.store.redis_backend import RedisBackend
from grass.supervision.predecessor import term_of
from grass.wire.witness import MasterLives, WitnessAnswer

TOGETHER = 2.5
"""Seconds without a sign of the standby after which it counts as away. It confirms each second what it has."""
_CONFIRMS = 0.5


class Keeper:
    """What is known of both. ``ask``: calls the witness. ``why``: why the standby would not take over now;
    empty: it would."""

    def __init__(
        self, backend: RedisBackend, keys: Keys, standby: StandbyConfig, ask: Callable[[MasterLives], WitnessAnswer]
    ) -> None:
        self._backend, self._keys, self._standby, self._ask = backend, keys, standby, ask
        self._record: Record | None = None
        self._offset, self._at, self._began = -1, float("-inf"), float("inf")
        self.why = "the witness was not asked yet"

    def look(self, now: float) -> None:
        """One turn: at most one call of the witness. ``now``: of the steady clock."""
        self._began = min(self._began, now)
        self._see(now)
        consent = self._backend.get(self._keys.consent) == "1"
        if consent:
            self._backend.require_replicas(0)  # a server that was restarted refuses again
        wanted = self._wanted(consent, now)
        term = term_of(self._backend, self._keys.restored)
        known = self._record or Record(term)
        # A witness that knows nothing notes the worst, until both are together: the master may have been alone before.
        alone = consent or self._record is None if wanted is None else wanted
        try:
            answer = self._ask(MasterLives(term, known.version, alone, wanted is not None))
        except GrassError as error:
            self.why = str(error)
            return
        self._record = answer.record
        self.why = answer.why
        if wanted and not answer.why:
            self._backend.require_replicas(0)
            self._backend.apply([("SET", self._keys.consent, "1")])
        if not self.why and answer.record.alone:
            self.why = "the master goes on alone: the standby lacks what is acknowledged now"
        elif not self.why and not self._together(now):
            self.why = "the standby is away"

    def _see(self, now: float) -> None:
        offset = max((each.offset for each in self._backend.replication().replicas if each.online), default=-1)
        if offset not in (-1, self._offset):
            if self._offset != -1:
                self._at = now  # it advances: what is sent each second arrives
            self._offset = offset

    def _together(self, now: float) -> bool:
        return now - self._at < TOGETHER

    def _wanted(self, consent: bool, now: float) -> bool | None:
        """Return what the witness shall note: that the master goes on alone, that it does not, or nothing (None)."""
        if self._record is None:
            return None  # it knows more than this process, which has just begun
        if self._together(now):
            return False if (consent or self._record.alone) and self._is_together(consent) else None
        waits = now - self._began < TOGETHER
        return None if consent or waits or self._standby.needed else True

    def _is_together(self, consent: bool) -> bool:
        """Withdraw the consent. Return whether each process waits for the standby again, which has everything."""
        if consent:
            self._backend.apply([("DEL", self._keys.consent)])
        if self._backend.hgetall(self._keys.alone):
            return False  # they look once a second
        self._backend.require_replicas(1)
        return self._backend.on_replica(_CONFIRMS)
