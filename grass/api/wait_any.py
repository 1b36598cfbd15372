"""Waiting for the first of several jobs. Called by ``client``."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from grass.errors import InputError

MOST_JOBS = 100
"""Jobs to wait for at once: each has a thread and a connection."""
_View = TypeVar("_View")


def first_ended(wait: Callable[[str, float | None], _View], names: Sequence[str], timeout: float | None) -> _View:
    """Return the view of the job that ends first. Raises the first error, also that of a time-out.

    The other waits go on in threads that end with their jobs or with the process.
    """
    if isinstance(names, str) or not names or len(names) > MOST_JOBS:
        raise InputError(f"names must be a list of 1 to {MOST_JOBS} jobs, got {names!r}")
    found: queue.SimpleQueue[_View | Exception] = queue.SimpleQueue()

    def run(name: str) -> None:
        try:
            found.put(wait(name, timeout))
        except Exception as error:  # noqa: BLE001 (raised again by the caller)
            found.put(error)

    for name in dict.fromkeys(names):
        threading.Thread(target=run, args=(name,), daemon=True).start()
    first = found.get()
    if isinstance(first, Exception):
        raise first
    return first
