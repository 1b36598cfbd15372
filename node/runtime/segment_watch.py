"""Watches /dev/shm for new segments: a task may crash long before the next regular scan. Used by the shepherd.

It uses inotify through the C library. If that is refused (too many watches), only the regular scans remain.
"""

from __future__ import annotations

import ctypes
import os
import selectors
from collections.abc import Callable

from grass.system import clock
from node.runtime import segment_files
from node.runtime.timers import Timers

FOLDER = segment_files.FOLDER.encode()
_IN_CREATE = 0x100
SOON = 0.003
"""Seconds after its creation by which a segment is mapped."""
PAUSE = 0.1
"""Seconds between two scans while many segments are created: a scan reads the maps of every process."""


class SegmentWatch:
    """Calls ``look`` soon after a segment was created, and now and then while many are."""

    def __init__(self, timers: Timers, selector: selectors.BaseSelector, look: Callable[[], None]) -> None:
        self._timers = timers
        self._selector = selector
        self._look = look
        self._fd = _watch()
        self._listen()

    def _listen(self) -> None:
        if self._fd >= 0:
            self._selector.register(self._fd, selectors.EVENT_READ, lambda _: self._on_news())

    def _on_news(self) -> None:
        self._selector.unregister(self._fd)
        self._drain()
        now = clock.steady()
        self._timers.at(now + SOON, self._look)
        self._timers.at(now + PAUSE, self._again)

    def _again(self) -> None:
        self._look()
        self._drain()
        self._listen()

    def _drain(self) -> None:
        try:
            while os.read(self._fd, 65536):
                pass
        except BlockingIOError:
            pass


def _watch() -> int:
    """Return an inotify descriptor for ``FOLDER``; -1 if inotify is not available."""
    library = ctypes.CDLL(None)
    descriptor: int = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if descriptor >= 0 and library.inotify_add_watch(descriptor, FOLDER, _IN_CREATE) < 0:
        os.close(descriptor)
        return -1
    return descriptor
