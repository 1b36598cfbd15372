"""Calls about nodes and join tokens. A part of ``ApiClient``."""

from __future__ import annotations

from grass import clock
from grass.api.requests import Requests, path_of, quoted
from grass.api.transport import View, with_query
from grass.wire.waits import LONGEST_WAIT


class NodeCalls(Requests):
    """Nodes, and the tokens with which machines join."""

    def nodes(self) -> list[View]:
        """Return all nodes. ``resources``, ``free``: cpu in thousandths of a core, memory and disk in bytes, gpu in
        thousandths of a device; times are seconds since the epoch. Raises UnreachableError."""
        found: list[View] = self._get("/v1/nodes")["nodes"]
        return found

    def node(self, name: str) -> View:
        """Return one node, as ``nodes`` does. Raises NotFoundError."""
        return self._get(path_of("nodes", name))

    def cordon(self, node: str) -> View:
        """Let a node take no new tasks. Raises NotFoundError.

        ``node`` of the result is the node's view before the change; ``mark`` is for ``watch_node``.
        """
        return self._post(path_of("nodes", node, "cordon"), {})

    def uncordon(self, node: str) -> View:
        """Let a node take tasks again, also after a drain. Returns what ``cordon`` returns. Raises NotFoundError."""
        return self._post(path_of("nodes", node, "uncordon"), {})

    def drain(self, node: str, deadline: float | None = None) -> View:
        """Let a node take no new tasks, and move its tasks elsewhere after ``deadline`` seconds (None: wait for their
        end). Returns what ``cordon`` returns. Raises NotFoundError."""
        return self._post(path_of("nodes", node, "drain"), {"deadline": deadline})

    def remove_node(self, node: str, force: bool = False) -> View:
        """Remove a node once it is empty. ``force``: now, even if it does not answer; its tasks are placed
        elsewhere. Returns what ``cordon`` returns. Raises NotFoundError."""
        return self._post(path_of("nodes", node, "remove"), {"force": force})

    def watch_node(self, node: str, seen: str | None, timeout: float = LONGEST_WAIT) -> View:
        """Wait until the mark of a node differs from ``seen``, for ``timeout`` seconds at most (25).

        ``node`` of the result is None once it is gone. Raises NotFoundError for a name that no node ever had.
        """
        wait = min(timeout, LONGEST_WAIT)
        target = with_query(path_of("nodes", node, "wait"), {"seen": seen, "timeout": f"{wait:.3f}"})
        answer: View = self._transport.call("GET", target, wait=wait)
        clock.sleep(min(answer["pause"], timeout))
        return answer

    def join_token(self, name: str | None = None, expires: float = 3600.0, uses: int = 1) -> View:
        """Issue a token with which machines join. Raises ConflictError if a node ``name`` exists.

        ``name``: only a node with this name may join. ``expires``: seconds from now; in the result, seconds since the
        epoch. ``uses``: how many machines may join with it.
        """
        return self._post("/v1/join-tokens", {"name": name, "expires": expires, "uses": uses})

    def join_terms(self) -> View:
        """Return the content of a join token without its secret. Raises NotAllowedError: not an administrator."""
        return self._get("/v1/join-terms")

    def join_check(self, body: View) -> View:
        """Check whether a machine could join: the answer of a join with ``check``, without a token.

        Raises ConflictError or InputError with the reason if it could not.
        """
        return self._post("/v1/join-terms", {name: body[name] for name in ("name", "facts", "node", "password")})

    def join_tokens(self) -> list[View]:
        """Return the join tokens, without their secrets. Raises NotAllowedError: not an administrator."""
        found: list[View] = self._get("/v1/join-tokens")["tokens"]
        return found

    def revoke_join_token(self, token: str) -> View:
        """Revoke a join token by its id. Nodes that joined with it stay. Raises NotFoundError."""
        revoked: View = self._delete(f"/v1/join-tokens/{quoted('join token', token)}")
        return revoked
