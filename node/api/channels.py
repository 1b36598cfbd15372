"""What is open on this node for callers of its API: commands beside tasks, and forwarded ports.

Each has a random id and an owner. The id alone proves nothing: every later call says who calls, and finds only what the
same caller has opened. Used by ``app``, ``commands``, ``forwards``, ``forward_routes``, ``routes`` and
``task_exec``.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from grass.errors import ConflictError, NotFoundError
from grass.system import clock
from grass.system.entropy import request_id

MOST_WAITING = 1 << 20
"""Most bytes of output that are kept; the task is blocked until some are fetched."""
ABANDONED = 60.0
"""Seconds without a poll after which a channel ends."""
LONGEST_POLL = 20.0
GLANCE = 0.5
"""Seconds between two looks at whether anybody polls."""

_Source = TypeVar("_Source")


class Channel(ABC, Generic[_Source]):
    """An open channel: it keeps output until that is fetched, and ends when nobody polls it.

    A thread of its own moves the data; a subclass starts it. ``COUNTS_BYTES``: positions in the output count bytes,
    not pieces. ``abandoned``: seconds without a poll after which it ends; a poll waits for ``poll`` seconds."""

    COUNTS_BYTES: ClassVar[bool]

    def __init__(self, abandoned: float, poll: float = LONGEST_POLL) -> None:
        self._patience, self._poll = abandoned, poll
        self._changed = threading.Condition()
        self._pieces: deque[tuple[_Source, bytes | None]] = deque()
        self._waiting = 0
        """Bytes in ``_pieces``."""
        self._first = self._next = 0
        """Positions of the first piece that is kept, and of the one that comes next."""
        self._asked = clock.steady()
        self._ending = False
        """Whether it takes nothing more."""
        self.over = False
        self._thread = threading.Thread(target=self._run, name=type(self).__name__.lower(), daemon=True)

    @property
    def abandoned(self) -> bool:
        """Return whether nobody has asked for output for long."""
        return clock.steady() - self._asked > self._patience

    def read_after(self, after: int) -> tuple[list[tuple[_Source, bytes | None]], int, bool]:
        """Wait for output from position ``after`` on, or for the end. What came before was received, and is dropped.

        Return the pieces, the position after them, and whether none will follow."""
        with self._changed:
            self._asked = clock.steady()
            self._drop(after)
            self._changed.wait_for(lambda: self._pieces or self.over, self._poll)
            self._asked = clock.steady()
            return list(self._pieces), self._next, self.over

    def cancel(self) -> None:
        """Have it ended, without waiting for its end."""
        with self._changed:
            self._ending = True
            self._look_again()

    def end(self) -> None:
        """End it, and wait up to five seconds for its thread."""
        self.cancel()
        self._thread.join(5.0)

    @abstractmethod
    def _move(self) -> bool:
        """Wait a moment for data, and move it. Return False at the end."""

    @abstractmethod
    def _release(self) -> None:
        """Release everything. Called once, at the end, by the thread."""

    def _steps(self, data: bytes | None) -> int:
        """Return by how much a piece of output moves the position."""
        return len(data or b"") if self.COUNTS_BYTES else 1

    def _look_again(self) -> None:
        """Tell the thread that something has changed. The caller holds ``_changed``."""
        self._changed.notify_all()

    def _put(self, source: _Source, data: bytes | None) -> None:
        """Keep a piece of output. The caller holds ``_changed``."""
        self._pieces.append((source, data))
        self._waiting += len(data or b"")
        self._next += self._steps(data)
        self._changed.notify_all()

    def _drop(self, after: int) -> None:
        while self._pieces and self._first < after:
            source, data = self._pieces.popleft()
            gone = min(self._steps(data), after - self._first)
            rest = data[gone:] if data is not None and gone < self._steps(data) else b""
            if rest:
                self._pieces.appendleft((source, rest))
            self._first += gone
            self._waiting -= len(data or b"") - len(rest)
        self._look_again()

    def _run(self) -> None:
        try:
            while not (self._ending or self.abandoned) and self._move():
                pass
        finally:
            try:
                self._release()
            finally:
                with self._changed:
                    self.over = True
                    self._changed.notify_all()


class Owner(NamedTuple):
    """The Grass user who opened something beside a task.

    ``task``: as ``worker.3``; empty for a forward, whose callers name the job only.
    """

    user: str
    job_id: str
    task: str = ""


_Owner = TypeVar("_Owner")
_Channel = TypeVar("_Channel", bound=Channel[Any])


class Channels(Generic[_Owner, _Channel]):
    """All channels of one kind. Safe for several threads.

    ``kind``: its name in messages. ``most``: how many may be open at once.
    """

    def __init__(self, kind: str, most: int) -> None:
        self._kind = kind
        self._most = most
        self._open: dict[str, tuple[_Owner, _Channel]] = {}
        self._lock = threading.Lock()

    def add(self, owner: _Owner, channel: _Channel) -> str:
        """Return the id of what was opened. Raises ConflictError, and ends it, if too many are open."""
        with self._lock:
            self._open = {
                name: (whose, each) for name, (whose, each) in self._open.items() if not (each.over and each.abandoned)
            }
            if len(self._open) < self._most:
                name = request_id()
                self._open[name] = (owner, channel)
                return name
        channel.cancel()
        raise ConflictError(f"this node has {self._most} {self._kind}s open already; try again in a minute")

    def get(self, owner: _Owner, name: str) -> _Channel:
        """Return what the owner has opened. Raises NotFoundError, also for what others have opened."""
        with self._lock:
            whose, channel = self._open.get(name, (None, None))
        if channel is None or whose != owner:
            raise NotFoundError(f"no such {self._kind}; it may have ended")
        return channel

    def has(self, name: str) -> bool:
        with self._lock:
            return name in self._open

    def close(self, owner: _Owner, name: str) -> None:
        """End what the owner has opened. Raises NotFoundError."""
        channel = self.get(owner, name)
        with self._lock:
            self._open.pop(name, None)
        channel.end()

    def cancel(self, chosen: Callable[[_Owner], bool]) -> None:
        """Have all ended whose owner is ``chosen``, without waiting for their end."""
        with self._lock:
            ended = [(name, channel) for name, (owner, channel) in self._open.items() if chosen(owner)]
            for name, _ in ended:
                del self._open[name]
        for _, channel in ended:
            channel.cancel()
