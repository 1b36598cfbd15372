"""Waiting in tests: for a condition, with a deadline. The only place where a test may sleep, and never to be right."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(
    condition: Callable[[], object], seconds: float = 20.0, what: str = "the condition", every: float = 0.02
) -> None:
    """Return as soon as ``condition()`` is true. Raise AssertionError after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come within {seconds:g} s")
        time.sleep(every)
