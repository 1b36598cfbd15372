"""What somebody who waits for a job is told before it has ended. Pure."""

from __future__ import annotations

from grass.model.lifecycle import JobState
from grass.wire.job_record import JobRecord
from grass.wire.views import NoNews, WaitedView
from master.api.call import HEARTBEAT
from master.api.views import job_view

EVERY = 0.2
"""Seconds between two looks at the counts of a job that somebody watches."""


class Progress:
    """For one stream. ``wanted``: whoever waits watches; else they learn once how it is, and nothing more."""

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted
        self._state: JobState | None = None
        self._seen: object = None
        self._told = float("-inf")

    @property
    def patience(self) -> float:
        """Seconds until the next look, if nothing happens."""
        return EVERY if self._wanted else HEARTBEAT

    def piece(self, record: JobRecord, now: float) -> WaitedView | NoNews | None:
        """What to send, if anything: a change of state at once, of counts and reasons once in ``EVERY`` seconds."""
        moved = record.state != self._state and (self._wanted or self._state is None)
        seen = (record.reason, record.counts, record.restarts)
        got_on = self._wanted and seen != self._seen and now - self._told >= EVERY
        if moved or got_on:
            self._state, self._seen, self._told = record.state, seen, now
            return WaitedView(job_view(record))
        if now - self._told >= HEARTBEAT:
            self._told = now
            return NoNews()
        return None
