"""Waiting in tests: for a condition, with a deadline. The only place where a test may sleep, and never to be right."""

from __future__ import annotations

import time
from collections.abc import Callable

_SLOWEST = 0.1


def wait_until(
    condition: Callable[[], object], seconds: float = 20.0, what: str = "the condition", every: float = 0.02
) -> None:
    """Return soon after ``condition()`` is true. Raise AssertionError after ``seconds``.

    ``every``: seconds between two questions, at first. What takes long is asked for less often, up to ``_SLOWEST``:
    questions cost processor time, which other tests wait for.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come within {seconds:g} s")
        time.sleep(every)
        every = max(every, min(1.15 * every, _SLOWEST))
