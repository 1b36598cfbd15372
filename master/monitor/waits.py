"""How long jobs waited before they started: a histogram, from the stream of jobs that ended. Used by the monitor.

A job that ended without having started does not count.
"""

from __future__ import annotations

from bisect import bisect_left

from grass.wire.job_record import JobRecord

BOUNDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 21600, 86400)
"""Seconds."""


class Waits:
    """The histogram since the monitor began."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        """Jobs whose wait is at most each bound and above the one before; the last class holds longer waits."""
        self.seconds = 0.0

    def add(self, record: JobRecord) -> None:
        if record.started is not None:
            wait = max(0.0, record.started - record.submitted)
            self.counts[bisect_left(BOUNDS, wait)] += 1
            self.seconds += wait
