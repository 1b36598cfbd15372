"""Messages from other threads of the node-agent to its loop. They fill the inbox at any time; the loop empties it.

Used by ``loop``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from node.agent.readiness import Verdict


class Shipped(NamedTuple):
    """The log of an attempt is complete at the collector. From the shipper's thread."""

    key: str


class Left(NamedTuple):
    """An attempt left its framework by itself. From the threads of the membership API."""

    key: str


class Checked(NamedTuple):
    """The result of a readiness check. From the threads of ``Readiness``. ``failure``: what the check said."""

    verdict: Verdict
    key: str
    failure: str


News = Shipped | Left | Checked


class Inbox:
    """Messages that wait for the loop.

    ``wake`` ends the loop's wait.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._news: deque[News] = deque()

    def shipped(self, key: str) -> None:
        self._add(Shipped(key))

    def left(self, key: str) -> None:
        self._add(Left(key))

    def checked(self, verdict: Verdict, key: str, failure: str) -> None:
        self._add(Checked(verdict, key, failure))

    def take(self) -> Iterator[News]:
        """Yield what has arrived, in the order of its arrival."""
        while self._news:
            yield self._news.popleft()

    def _add(self, news: News) -> None:
        self._news.append(news)
        self._wake()
