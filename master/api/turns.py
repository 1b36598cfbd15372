"""Bounds how many requests of one user are served at once, so that threads stay free for other users. Used by ``call``.

A request is either answered at once, in a turn, or it waits, in a slot. Safe for several threads.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from grass.errors import TooManyCallsError


class Turns:
    """Counts the requests of each user that are being answered.

    ``each``: requests of one user that may be answered at once.
    """

    def __init__(self, each: int) -> None:
        self._each = each
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()

    @contextmanager
    def turn(self, user: str) -> Iterator[None]:
        """Raise TooManyCallsError for a user who has all of their turns. The client repeats the request."""
        with self._lock:
            if self._taken[user] >= self._each:
                raise TooManyCallsError(f"user {user}: {self._each} calls are being answered already; try again later")
            self._taken[user] += 1
        try:
            yield
        finally:
            self._add(user, -1)

    @contextmanager
    def left(self, user: str) -> Iterator[None]:
        """Give the turn back while the request waits in a slot."""
        self._add(user, -1)
        try:
            yield
        finally:
            self._add(user, 1)

    def _add(self, user: str, count: int) -> None:
        with self._lock:
            self._taken[user] += count
            if not self._taken[user]:
                del self._taken[user]


class WaitingSlots:
    """Counts the requests that wait, in all and for each user.

    ``count``: requests that may wait at once. ``each``: those of one user.
    """

    def __init__(self, count: int, each: int) -> None:
        self._count = count
        self._each = each
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()

    @property
    def taken(self) -> int:
        """How many wait now."""
        with self._lock:
            return self._taken.total()

    @contextmanager
    def slot(self, user: str) -> Iterator[bool]:
        """Yield whether a slot was free. Without one, answer with what is known now; the client asks again."""
        with self._lock:
            granted = self._taken.total() < self._count and self._taken[user] < self._each
            self._taken[user] += granted
        try:
            yield granted
        finally:
            if granted:
                with self._lock:
                    self._taken[user] -= 1
                    if not self._taken[user]:
                        del self._taken[user]
