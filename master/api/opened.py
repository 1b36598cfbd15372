"""What users have open on nodes now: commands beside tasks, and forwards. In the memory of the API server.

After a restart of the server, a node ends by itself what nobody asks for, after a minute. Used by ``call`` and ``app``.
"""

from __future__ import annotations

from threading import Lock

MOST = 10_000
"""What is kept. Beyond it the oldest is forgotten: a client that died closes nothing."""


class Opened:
    """Thread-safe. What is open is named by its node and its path in the API of the node."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._users: dict[tuple[str, str], str] = {}

    def add(self, user: str, node: str, path: str) -> None:
        with self._lock:
            self._users[node, path] = user
            while len(self._users) > MOST:
                del self._users[next(iter(self._users))]

    def discard(self, node: str, path: str) -> None:
        with self._lock:
            self._users.pop((node, path), None)

    def take(self, user: str) -> dict[str, list[str]]:
        """Remove and return what the user has open: node → paths."""
        found: dict[str, list[str]] = {}
        with self._lock:
            for node, path in [place for place, its in self._users.items() if its == user]:
                found.setdefault(node, []).append(path)
                del self._users[node, path]
        return found
