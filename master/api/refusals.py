"""The log of refused requests: anybody can cause one, so what is written of them is bounded.

Used by the server for requests that it cannot read, and by calls that cannot be opened for a reason nobody expected.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from grass.clock import steady

log = logging.getLogger("master.api")

LINES = 10
"""At most so many within ``SECONDS``; what exceeds them is counted."""
SECONDS = 60.0


class RefusalLog:
    """Safe for several threads."""

    def __init__(self, now: Callable[[], float] = steady) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._begun = now()
        self._written = 0
        self._left_out = 0

    def write(self, address: str, why: str) -> None:
        with self._lock:
            now = self._now()
            if now - self._begun >= SECONDS:
                if self._left_out:
                    log.warning("%d further requests were refused within %d s", self._left_out, now - self._begun)
                self._begun, self._written, self._left_out = now, 0, 0
            if self._written == LINES:
                self._left_out += 1
                return
            self._written += 1
        log.warning("request from %s: refused (%s)", address, why)
