"""Calls about nodes and join tokens. A part of ``Client``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grass.api.requests import Requests, path_of, quoted
from grass.api.transport import PlainData, with_query
from grass.system import clock
from grass.wire.waits import LONGEST_WAIT

if TYPE_CHECKING:
    from grass.wire.cloud import CloudCosts, CloudView
    from grass.wire.join_views import JoinedView, JoinTerms, JoinTokenRow, JoinTokenView
    from grass.wire.node_views import NodeAccepted, NodeView, NodeWaited


class NodeCalls(Requests):
    """Nodes, and the tokens with which machines join."""

    def nodes(self) -> list[NodeView]:
        """Return all nodes. ``resources``, ``free``: cpu in thousandths of a core, memory and disk in bytes, gpu in
        thousandths of a device; times are seconds since the epoch. Raises UnreachableError."""
        from grass.wire.node_views import NODES

        return list(self._get("/v1/nodes", NODES).nodes)

    def node(self, name: str) -> NodeView:
        """Return one node, as ``nodes`` does. Raises NotFoundError."""
        from grass.wire.node_views import NODE

        return self._get(path_of("nodes", name), NODE)

    def notice(self) -> str:
        """Return where the master is, signed: for `grass node follow` on a machine that looks for it elsewhere.

        Raises UnreachableError: no master answers.
        """
        from grass.wire.views import NOTICE_VIEW

        return self._get("/v1/cluster/notice", NOTICE_VIEW).notice

    def cordon(self, node: str) -> NodeAccepted:
        """Let a node take no new tasks. Raises NotFoundError.

        ``node`` of the result is the node's view before the change; ``mark`` is for ``watch_node``.
        """
        from grass.wire.node_views import NODE_ACCEPTED

        return self._post(path_of("nodes", node, "cordon"), {}, NODE_ACCEPTED)

    def uncordon(self, node: str) -> NodeAccepted:
        """Let a node take tasks again, also after a drain. Returns what ``cordon`` returns. Raises NotFoundError."""
        from grass.wire.node_views import NODE_ACCEPTED

        return self._post(path_of("nodes", node, "uncordon"), {}, NODE_ACCEPTED)

    def drain(self, node: str, deadline: float | None = None) -> NodeAccepted:
        """Let a node take no new tasks, and move its tasks elsewhere after ``deadline`` seconds (None: wait for their
        end). Returns what ``cordon`` returns. Raises NotFoundError."""
        from grass.wire.node_views import NODE_ACCEPTED

        return self._post(path_of("nodes", node, "drain"), {"deadline": deadline}, NODE_ACCEPTED)

    def stop_node(self, node: str, why: str = "") -> NodeAccepted:
        """Note that the machine of a drained node is turned off: the node is STOPPED until the machine boots again.
        ``why``: for people. Returns what ``cordon`` returns. Raises NotFoundError, ConflictError: it is not drained."""
        from grass.wire.node_views import NODE_ACCEPTED

        return self._post(path_of("nodes", node, "stop"), {"why": why}, NODE_ACCEPTED)

    def tell_cloud(
        self, holder: str = "", seconds: float = 0.0, problem: str = "", costs: CloudCosts | None = None
    ) -> CloudView:
        """Take or keep the lease of who starts and stops nodes of a cluster in a cloud by themselves, for ``seconds``;
        0: give it back. ``problem``: why ``holder`` cannot. ``costs``: what the machines cost.

        The result says who has the lease. Raises NotAllowedError: not an administrator.
        """
        from grass.wire.cloud import CLOUD
        from grass.wire.codec import builtins

        told = None if costs is None else builtins(costs)
        return self._post(
            "/v1/cloud", {"holder": holder, "seconds": seconds, "problem": problem[:2000], "costs": told}, CLOUD
        )

    def remove_node(self, node: str, force: bool = False) -> NodeAccepted:
        """Remove a node once it is empty. ``force``: now, even if it does not answer; its tasks are placed
        elsewhere. Returns what ``cordon`` returns. Raises NotFoundError."""
        from grass.wire.node_views import NODE_ACCEPTED

        return self._post(path_of("nodes", node, "remove"), {"force": force}, NODE_ACCEPTED)

    def watch_node(self, node: str, seen: str | None, timeout: float = LONGEST_WAIT) -> NodeWaited:
        """Wait until the mark of a node differs from ``seen``, for ``timeout`` seconds at most (25).

        ``node`` of the result is None once it is gone. Raises NotFoundError for a name that no node ever had.
        """
        from grass.wire.node_views import NODE_WAITED

        wait = min(timeout, LONGEST_WAIT)
        target = with_query(path_of("nodes", node, "wait"), {"seen": seen, "timeout": f"{wait:.3f}"})
        answer = self._transport.read(NODE_WAITED, "GET", target, wait=wait)
        clock.sleep(min(answer.pause, timeout))
        return answer

    def join_token(self, name: str | None = None, expires: float = 3600.0, uses: int = 1) -> JoinTokenView:
        """Issue a token with which machines join. Raises ConflictError if a node ``name`` exists.

        ``name``: only a node with this name may join. ``expires``: seconds from now; in the result, seconds since the
        epoch. ``uses``: how many machines may join with it.
        """
        from grass.wire.join_views import JOIN_TOKEN

        return self._post("/v1/join-tokens", {"name": name, "expires": expires, "uses": uses}, JOIN_TOKEN)

    def join_terms(self) -> JoinTerms:
        """Return the content of a join token without its secret. Raises NotAllowedError: not an administrator."""
        from grass.wire.join_views import JOIN_TERMS

        return self._get("/v1/join-terms", JOIN_TERMS)

    def join_check(self, body: PlainData) -> JoinedView:
        """Check whether a machine could join: the answer of a join with ``check``, without a token.

        Raises ConflictError or InputError with the reason if it could not.
        """
        from grass.wire.join_views import JOINED

        return self._post(
            "/v1/join-terms", {name: body[name] for name in ("name", "facts", "node", "password")}, JOINED
        )

    def join_tokens(self) -> list[JoinTokenRow]:
        """Return the join tokens, without their secrets. Raises NotAllowedError: not an administrator."""
        from grass.wire.join_views import JOIN_TOKENS

        return list(self._get("/v1/join-tokens", JOIN_TOKENS).tokens)

    def revoke_join_token(self, token: str) -> JoinTokenRow:
        """Revoke a join token by its id. Nodes that joined with it stay. Raises NotFoundError."""
        from grass.wire.join_views import JOIN_TOKEN_ROW

        return self._delete(f"/v1/join-tokens/{quoted('join token', token)}", JOIN_TOKEN_ROW)
