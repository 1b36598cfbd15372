"""The log of refused requests. Anybody can cause a refusal, so the number of lines is bounded. Used by the server."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from grass.system.clock import steady

log = logging.getLogger("grass.serving")

LINES = 10
"""Lines within ``SECONDS``, at most. Further refusals are only counted."""
SECONDS = 60.0


class RefusalLog:
    """Writes the lines. Safe for several threads."""

    def __init__(self, now: Callable[[], float] = steady) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._begun = now()
        self._written = 0
        self._left_out = 0

    def write(self, address: str, why: str) -> None:
        """Log one refusal, if there are not too many."""
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
