"""Decides whether a request is repeated, and for how long. Called by ``transport``; sends nothing itself."""

from __future__ import annotations

from collections.abc import Callable

from grass.backoff import Backoff
from grass.errors import NodeUnreachableError, UnreachableError
from grass.system import clock

TIMEOUT = 5.0
"""Seconds for which a request is retried before the cluster counts as unreachable."""
_RESTART = 6
"""The same for a stream, in time-outs, whose server has answered before and refused or broke a connection now."""
_SHORTEST = 0.2
"""Least seconds of an attempt, even if less time is left."""


class Patience:
    """The retry policy of one exchange. ``timeout``, ``wait``: seconds; see ``TIMEOUT`` and ``Transport.call``.

    ``resumed``: the server has answered before. ``steady``: the clock.
    """

    def __init__(self, timeout: float, wait: float, resumed: bool, steady: Callable[[], float] = clock.steady) -> None:
        self._timeout = timeout
        self._wait = wait
        self._steady = steady
        self._began = steady()
        self._until = self._began + timeout
        self._restart = _RESTART * timeout if resumed else 0.0
        self._pauses = Backoff(0.01, 0.3)
        self._corrected = self._renewed = False
        self.attempt, self.arrived = 0, False  # arrived: an attempt may have reached the server
        self.sent = False  # an attempt began to send
        self.answer: UnreachableError | None = None
        """What the server last answered. Attempts that then ran out of time do not refute it."""

    @property
    def left(self) -> float:
        """Return the seconds for the next attempt."""
        return max(_SHORTEST, self._until - self._steady()) + self._wait

    @property
    def waited(self) -> float:
        """Return the seconds since the first attempt began."""
        return self._steady() - self._began

    def may_correct(self) -> bool:
        """Return True once: the clock may be corrected and the request repeated."""
        first, self._corrected = not self._corrected, True
        return first

    def may_renew(self) -> bool:
        """Return True once: the session may be renewed and the request repeated."""
        first, self._renewed = not self._renewed, True
        return first

    def again(self) -> None:
        """Begin anew: another server is tried."""
        self._began = self._steady()
        self._until, self._restart = self._began + self._timeout, 0.0
        self._pauses.reset()

    def goes_on(self, error: Exception) -> bool:
        """Wait and return True if another attempt is allowed. A server that went away while it held a request gets the
        whole timeout to come back; a silent server does not. One that restarts may be silent until it has started."""
        now = self._steady()
        self.arrived |= not isinstance(error, ConnectionRefusedError)
        if not isinstance(error, TimeoutError):
            self.answer = error if isinstance(error, UnreachableError) else None
            if self._wait and self.attempt == 0 and not isinstance(error, NodeUnreachableError):
                self._until = now + self._timeout
            self._until, self._restart = max(self._until, self._began + self._restart), 0.0
        if now >= self._until:
            return False
        clock.sleep(self._pauses.next())
        self.attempt += 1
        return True
