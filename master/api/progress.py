"""What a client that waits for a job receives before the job has ended. Pure. Used by ``jobs``."""

from __future__ import annotations

from grass.model.lifecycle import JobState
from grass.wire.job_record import JobRecord
from grass.wire.job_views import WaitedView
from grass.wire.views import KeepAlive
from master.api.call import HEARTBEAT
from master.api.views import job_view

INTERVAL = 0.2
"""Seconds between two checks of the counts of a job whose progress is watched."""


class Progress:
    """What one stream has sent.

    ``wanted``: the client wants every change; otherwise it receives the job's state only once.
    """

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted
        self._state: JobState | None = None
        self._seen: object = None
        self._sent_at = float("-inf")

    @property
    def patience(self) -> float:
        """Seconds until the next check, if no event comes before."""
        return INTERVAL if self._wanted else HEARTBEAT

    def piece(self, record: JobRecord, now: float) -> WaitedView | KeepAlive | None:
        """Return what to send, if anything: a new state at once, new counts and reasons every ``INTERVAL`` seconds."""
        moved = record.state != self._state and (self._wanted or self._state is None)
        seen = (record.reason, record.counts, record.restarts)
        changed = self._wanted and seen != self._seen and now - self._sent_at >= INTERVAL
        if moved or changed:
            self._state, self._seen, self._sent_at = record.state, seen, now
            return WaitedView(job_view(record))
        if now - self._sent_at >= HEARTBEAT:
            self._sent_at = now
            return KeepAlive()
        return None
