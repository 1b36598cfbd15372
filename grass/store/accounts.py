"""The redis users of nodes: created when a node joins, removed when it leaves. Used by the master-agent only.

A user is created before the commit that creates the node's record, and removed after the commit that removes it. Both
may be repeated. ``keep`` removes users that a crash between the two left behind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from grass.store import embedded
from grass.store.redis_backend import RedisBackend
from grass.store.shared_bound import SharedBound

MOST_CONNECTIONS = 64
"""Connections of one node. A node-agent has fewer than ten; the server accepts 4096 of all together."""
LOGIN_SECONDS = 5
"""Nobody can log in as ``default``, so a connection that is still this user's has not logged in."""
MOST_STRANGERS = 256
"""Connections that have not logged in, however young. Beyond this many, the oldest are closed."""


class Accounts(Protocol):
    """How the master-agent makes and removes them."""

    def add(self, node: str, digest: str) -> None:
        """Create or replace a node's user. ``digest``: the SHA-256 of its password, in hexadecimal."""
        ...

    def remove(self, node: str) -> None: ...

    def keep(self, nodes: set[str]) -> None:
        """Remove the users of all nodes but these."""
        ...

    def crowded(self) -> set[str]:
        """Return the nodes with more than ``MOST_CONNECTIONS``. Close connections that do not log in."""
        ...

    def bound_shared(self, active: Callable[[], Collection[str]]) -> int:
        """Remove values that nodes put into the store beyond the limits (``SharedBound``); return how many."""
        ...


class RedisAccounts:
    """Accounts of the cluster's own server, over a connection of the user ``admin``."""

    def __init__(self, backend: RedisBackend, prefix: str, shared: SharedBound | None = None) -> None:
        self._backend = backend
        self._prefix = prefix
        self._shared = shared or SharedBound(backend, prefix)

    def add(self, node: str, digest: str) -> None:
        rights = embedded.node_rights(self._prefix, node, self._backend.version())
        self._backend.set_user(embedded.node_user(node), ["reset", "on", f"#{digest}", *rights])

    def remove(self, node: str) -> None:
        self._backend.delete_users([embedded.node_user(node)])

    def keep(self, nodes: set[str]) -> None:
        wanted = {embedded.node_user(node) for node in nodes}
        gone = [user for user in self._backend.users() if user.startswith("node-") and user not in wanted]
        if gone:
            self._backend.delete_users(gone)

    def crowded(self) -> set[str]:
        clients = self._backend.clients()
        self._backend.drop_clients(strangers(clients))
        counts = Counter(client.get("user", "") for client in clients)
        return {
            user.removeprefix("node-")
            for user, count in counts.items()
            if user.startswith("node-") and count > MOST_CONNECTIONS
        }

    def bound_shared(self, active: Callable[[], Collection[str]]) -> int:
        return self._shared.keep(active)


def strangers(clients: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the ids of the connections to close because they have not logged in. Pure."""
    return to_close([client for client in clients if client.get("user") == "default"])


def to_close(unknown: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the ids of ``unknown`` connections that are too old, and of the oldest if they are too many. Pure.

    By their age: one that sends something now and then would never be idle.
    """
    by_age = sorted((int(each["age"]), each["id"]) for each in unknown)
    young = [age <= LOGIN_SECONDS for age, _ in by_age[:MOST_STRANGERS]].count(True)
    return [client for _, client in by_age[young:]]


class MemoryAccounts:
    """Keeps digests in memory. For tests, and for a redis of the user's own, where all share one password."""

    def __init__(self) -> None:
        self.digests: dict[str, str] = {}

    def add(self, node: str, digest: str) -> None:
        self.digests[node] = digest

    def remove(self, node: str) -> None:
        self.digests.pop(node, None)

    def keep(self, nodes: set[str]) -> None:
        self.digests = {node: digest for node, digest in self.digests.items() if node in nodes}

    def crowded(self) -> set[str]:
        return set()

    def bound_shared(self, active: Callable[[], Collection[str]]) -> int:
        return 0
