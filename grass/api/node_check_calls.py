"""Calls about checks of nodes. A part of ``Client``; ``check_run`` makes a whole check of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from grass.api.requests import Requests, path_of, quoted
from grass.system.entropy import run_id
from grass.wire.codec import builtins

if TYPE_CHECKING:
    from grass.wire.checks import CheckBegun, CheckedView, Level, Measurements, NodeCheck
    from grass.wire.node_views import NodeAccepted


class NodeCheckCalls(Requests):
    """Checks of nodes. Only administrators may begin and end them."""

    def begin_check(
        self, nodes: Sequence[str] = (), level: Level = 0, *, image: str | None = None, wait: bool = False
    ) -> CheckBegun:
        """Start the job that holds nodes for a check. Empty ``nodes``: all that are READY.

        ``wait``: for nodes that have tasks. Raises ConflictError for such a node without it, NotFoundError, InputError.
        """
        from grass.wire.checks import CHECK_BEGUN

        body = {"nodes": list(nodes), "level": level, "image": image, "wait": wait, "id": run_id("check")}
        return self._post("/v1/node-checks", body, CHECK_BEGUN)

    def finish_check(self, job: str, level: Level, measured: Measurements) -> CheckedView:
        """Send what was measured, and return the verdicts. Raises ConflictError once the job has ended."""
        from grass.wire.checks import CHECKED

        path = f"/v1/node-checks/{quoted('check', job)}/result"
        return self._post(path, {"level": level, "measured": builtins(measured)}, CHECKED)

    def node_checks(self, node: str) -> list[NodeCheck]:
        """Return the kept checks of a node, newest first. Raises NotFoundError."""
        from grass.wire.checks import NODE_CHECKS

        return list(self._get(path_of("nodes", node, "checks"), NODE_CHECKS).checks)

    def release_node(self, node: str) -> NodeAccepted:
        """End the quarantine of a node and its devices that a check began. Returns what ``cordon`` returns. Raises
        NotFoundError."""
        from grass.wire.node_views import NODE_ACCEPTED

        return self._post(path_of("nodes", node, "release"), {}, NODE_ACCEPTED)
