"""The redis users of nodes: created when a node joins, removed when it leaves. Used by the master-agent only.

A user is created before the commit that creates the node's record, and removed after the commit that removes it. Both
may be repeated. ``keep`` removes users that a crash between the two left behind.
"""

from __future__ import annotations

from typing import Protocol

from grass.store import embedded
from grass.store.redis_backend import RedisBackend


class Accounts(Protocol):
    def add(self, node: str, digest: str) -> None:
        """Create or replace a node's user. ``digest``: the SHA-256 of its password, in hexadecimal."""
        ...

    def remove(self, node: str) -> None: ...

    def keep(self, nodes: set[str]) -> None:
        """Remove the users of all nodes but these."""
        ...


class RedisAccounts:
    """Over a connection of the user ``admin`` to the cluster's own server."""

    def __init__(self, backend: RedisBackend, prefix: str) -> None:
        self._backend = backend
        self._prefix = prefix

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
