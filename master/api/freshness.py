"""Whether a request without a session is new: by a clock that neither jumps nor goes back, and by ids seen here.

The wall clock is read once, at the start; from then on the time is steady. What an earlier process may have accepted
lies before its *horizon*, which is kept in the store: a request from before it is refused, and the client asks again
with our time. So no id has to outlive the process, and no jump of a clock makes an old request new again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from grass.api.signing import FRESH_SECONDS
from grass.clock import steady
from master.api.seen import SeenHere

AHEAD_SECONDS = 10.0
"""How far a client's clock may be ahead of ours."""
STEP_SECONDS = 1.0
"""The horizon is moved on by as much as this, so that not every request writes it."""


class Freshness:
    """``horizon``: of earlier processes, 0 if there was none. Safe for several threads."""

    def __init__(self, wall: float, horizon: float, clock: Callable[[], float] = steady) -> None:
        self._clock = clock
        self._earliest = horizon
        self._horizon = horizon
        self._moving = threading.Lock()
        self._offset = max(wall, horizon - AHEAD_SECONDS / 2) - clock()
        self._seen = SeenHere(clock())

    def now(self) -> float:
        """The time that a client has to use."""
        return max(self._now(), self._earliest + 0.001)

    def is_fresh(self, issued_at: float) -> bool:
        now = self._now()
        return issued_at > self._earliest and now - FRESH_SECONDS <= issued_at <= now + AHEAD_SECONDS

    def move_horizon(self, keep: Callable[[float], None]) -> None:
        """Before a request is accepted: ``keep`` puts a later horizon into the store, if what is there is not enough.

        What ``keep`` raises goes on; then the horizon is where it was, and the next request tries again.
        """
        if self._now() + AHEAD_SECONDS <= self._horizon:
            return
        with self._moving:
            wanted = self._now() + AHEAD_SECONDS
            if wanted > self._horizon:
                keep(wanted + STEP_SECONDS)
                self._horizon = wanted + STEP_SECONDS

    def first_sight(self, request_id: str) -> bool:
        return self._seen.first_sight(request_id, self._clock())

    def _now(self) -> float:
        return self._clock() + self._offset
