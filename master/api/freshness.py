"""Whether a request without a session is new: by a clock that never jumps, and by the request ids seen so far.

The wall clock is read once, at the start; from then on the time is steady. The store keeps a *horizon*: every request
that an earlier process may have accepted was issued before it. A request from before the horizon is refused, and the
client retries with our time. So no id has to outlive the process, and no clock jump makes an old request new again.
Used by ``authentication``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from grass.api.signing import FRESH_SECONDS
from grass.system.clock import steady
from master.api.recent_ids import RecentIds

AHEAD_SECONDS = 10.0
"""How far a client's clock may be ahead of ours."""
STEP_SECONDS = 1.0
"""The horizon moves in steps of this size, so that not every request writes it."""


class Freshness:
    """Decides whether a signed request is new.

    ``wall``: the time now. ``horizon``: of earlier processes; 0: there was none. Safe for several threads.
    """

    def __init__(self, wall: float, horizon: float, clock: Callable[[], float] = steady) -> None:
        self._clock = clock
        self._earliest = horizon
        self._horizon = horizon
        self._moving = threading.Lock()
        self._offset = max(wall, horizon - AHEAD_SECONDS / 2) - clock()
        self._seen = RecentIds(clock())

    def now(self) -> float:
        """Return the time that a client must use."""
        return max(self._now(), self._earliest + 0.001)

    def is_fresh(self, issued_at: float) -> bool:
        """Return whether a request of this time is neither too old nor too new."""
        now = self._now()
        return issued_at > self._earliest and now - FRESH_SECONDS <= issued_at <= now + AHEAD_SECONDS

    def move_horizon(self, keep: Callable[[float], None]) -> None:
        """Store a later horizon if the stored one does not suffice. Call it before a request is accepted.

        ``keep`` stores a horizon. If it raises, the horizon stays, and the next request tries again.
        """
        if self._now() + AHEAD_SECONDS <= self._horizon:
            return
        with self._moving:
            wanted = self._now() + AHEAD_SECONDS
            if wanted > self._horizon:
                keep(wanted + STEP_SECONDS)
                self._horizon = wanted + STEP_SECONDS

    def first_sight(self, request_id: str) -> bool:
        """Remember the id. Return False if it was seen before."""
        return self._seen.first_sight(request_id, self._clock())

    def _now(self) -> float:
        return self._clock() + self._offset
