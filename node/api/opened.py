"""What is open on this node for callers of its API: commands beside tasks, and forwarded ports.

Each has a random id and an owner. The id alone proves nothing: every later call says who calls, and finds only what the
same caller has opened. Used by ``exec_routes``, ``forward_routes`` and ``task_exec``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, NamedTuple, Protocol, TypeVar

from grass.entropy import request_id
from grass.errors import ConflictError, NotFoundError


class Owner(NamedTuple):
    """The Grass user who opened something beside a task.

    ``task``: as ``worker.3``; empty for a forward, whose callers name the job only.
    """

    user: str
    job_id: str
    task: str = ""


class Openable(Protocol):
    """What may be open. ``over``: it has ended. ``abandoned``: nobody has asked for its output for long."""

    @property
    def over(self) -> bool: ...

    @property
    def abandoned(self) -> bool: ...

    def cancel(self) -> None:
        """Have it ended, without waiting for its end."""

    def end(self) -> None:
        """End it, and wait a few seconds for its end."""


_Owner = TypeVar("_Owner")
_Thing = TypeVar("_Thing", bound=Openable)


class Opened(Generic[_Owner, _Thing]):
    """All of one kind. Safe for several threads.

    ``kind``: its name in messages. ``most``: how many may be open at once.
    """

    def __init__(self, kind: str, most: int) -> None:
        self._kind = kind
        self._most = most
        self._things: dict[str, tuple[_Owner, _Thing]] = {}
        self._lock = threading.Lock()

    def add(self, owner: _Owner, thing: _Thing) -> str:
        """Return the id of what was opened. Raises ConflictError, and ends it, if too many are open."""
        with self._lock:
            self._things = {
                name: (whose, each)
                for name, (whose, each) in self._things.items()
                if not (each.over and each.abandoned)
            }
            if len(self._things) < self._most:
                name = request_id()
                self._things[name] = (owner, thing)
                return name
        thing.cancel()
        raise ConflictError(f"this node has {self._most} {self._kind}s open already; try again in a minute")

    def get(self, owner: _Owner, name: str) -> _Thing:
        """Return what the owner has opened. Raises NotFoundError, also for what others have opened."""
        with self._lock:
            whose, thing = self._things.get(name, (None, None))
        if thing is None or whose != owner:
            raise NotFoundError(f"no such {self._kind}; it may have ended")
        return thing

    def has(self, name: str) -> bool:
        with self._lock:
            return name in self._things

    def close(self, owner: _Owner, name: str) -> None:
        """End what the owner has opened. Raises NotFoundError."""
        thing = self.get(owner, name)
        with self._lock:
            self._things.pop(name, None)
        thing.end()

    def cancel(self, chosen: Callable[[_Owner], bool]) -> None:
        """Have all ended whose owner is ``chosen``, without waiting for their end."""
        with self._lock:
            ended = [(name, thing) for name, (owner, thing) in self._things.items() if chosen(owner)]
            for name, _ in ended:
                del self._things[name]
        for _, thing in ended:
            thing.cancel()
