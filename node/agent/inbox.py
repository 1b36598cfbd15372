"""Messages from other threads of the node-agent to its loop. They fill the inbox at any time; the loop empties it.

Used by ``loop`` and ``node.agent.__main__``, which hands it to all that has news for the loop.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from node.agent.readiness import Verdict


class Shipped(NamedTuple):
    """The log of an attempt is complete at the collector. From the shipper's thread."""

    key: str


class Left(NamedTuple):
    """An attempt left its framework by itself. From the threads of the membership API."""

    key: str


class Done(NamedTuple):
    """An attempt is ready to be stopped. From the threads of the membership API, and of ``Notices``."""

    key: str


class Checked(NamedTuple):
    """The result of a readiness check. From the threads of ``Readiness``. ``failure``: what the check said."""

    verdict: Verdict
    key: str
    failure: str


class Offers(NamedTuple):
    """What the machine offers has changed. From a thread of the machine."""


News = Shipped | Left | Done | Checked | Offers


class Inbox:
    """Messages that wait for the loop. For all threads, except ``take`` and ``rest``."""

    def __init__(self) -> None:
        self._descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._news: deque[News] = deque()

    def fileno(self) -> int:
        """Return a descriptor that is readable from ``wake`` to ``rest``."""
        return self._descriptor

    def wake(self) -> None:
        """Let the loop look at everything once more; also while a signal is handled."""
        os.eventfd_write(self._descriptor, 1)

    def rest(self) -> None:
        """Note that the loop is awake."""
        with suppress(BlockingIOError):
            os.eventfd_read(self._descriptor)

    def shipped(self, key: str) -> None:
        self._add(Shipped(key))

    def left(self, key: str) -> None:
        self._add(Left(key))

    def done(self, key: str) -> None:
        self._add(Done(key))

    def checked(self, verdict: Verdict, key: str, failure: str) -> None:
        self._add(Checked(verdict, key, failure))

    def offers(self) -> None:
        self._add(Offers())

    def drain(self) -> Iterator[News]:
        """Yield what has arrived, in the order of its arrival."""
        while self._news:
            yield self._news.popleft()

    def _add(self, news: News) -> None:
        self._news.append(news)
        self.wake()
