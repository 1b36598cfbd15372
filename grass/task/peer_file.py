"""Find the other tasks of a job: ``grass.peers()`` reads the file that ``GRASS_ADDRESSES`` names.

This file needs nothing but Python 3.8 and may be copied into a program or an image that has no Grass. Used by programs
of users.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

_PAUSE = 0.1


@dataclass(frozen=True, order=True)
class Peer:
    """One named port of one running task. ``task``: ``job.component.index``; ``host``: of its node, maybe an IPv6
    address."""

    component: str
    index: int
    name: str
    host: str
    port: int
    task: str

    @property
    def address(self) -> str:
        """``host:port``, as URLs have it: with brackets around an IPv6 address."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def peers(
    component: str | None = None, *, name: str | None = None, count: int = 0, timeout: float = 60.0
) -> list[Peer]:
    """Return the named ports of the job's running tasks, ordered by component and index.

    ``component``, ``name``: only ports of this component, or of this name. ``count``: wait until there are so many, at
    most ``timeout`` seconds. Raises TimeoutError, and RuntimeError outside of a task. Ports change when a task is
    started again: call it again after an error of a connection.
    """
    path = os.environ.get("GRASS_ADDRESSES")
    if not path:
        raise RuntimeError("GRASS_ADDRESSES is not set; grass.peers() works only inside a task of Grass")
    until = time.monotonic() + timeout
    while True:
        found = [peer for peer in _read(path) if component in (None, peer.component) and name in (None, peer.name)]
        if len(found) >= count:
            return found
        if time.monotonic() >= until:
            raise TimeoutError(f"{len(found)} of {count} peers after {timeout:g} s; `grass job why` says what waits")
        time.sleep(_PAUSE)


def _read(path: str) -> list[Peer]:
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.split() for line in file]
    except FileNotFoundError:
        return []
    return sorted(_peer(*line) for line in lines if len(line) == 4)


def _peer(task: str, host: str, port: str, name: str) -> Peer:
    _, component, index = task.rsplit(".", 2)
    return Peer(component, int(index), name, host, int(port), task)
