"""Commands in other tasks of a job: passed on to the node-api-server of the node that runs the task.

The caller's own token goes along; that node checks it with the job's secret. So nodes need no secret in common. Used by
``api`` and ``service``.
"""

from __future__ import annotations

from msgspec import Raw

from grass.api.node_link import FAILURES, NodeLink, refusal
from grass.errors import NodeUnreachableError, NotFoundError, UndecodableError
from grass.frameworks.seat import member_of
from grass.model.key_text import attempt_text, opened_name
from grass.network_address import network_address
from grass.node_config import NodeHome
from grass.wire.codec import Form, encode
from grass.wire.membership import Member
from grass.wire.membership_api import TaskExec, check_arguments
from grass.wire.node_api import TASK_EXEC, Opened, OpenTaskExec
from node.membership.memberships import Memberships

CONNECT_SECONDS = 3.0
SECONDS = 30.0
"""Longer than a request for output waits at the node."""
_JSON: Form[Raw] = Form(Raw)


class Forwarding:
    """Passes requests about commands on to other nodes. Safe for many threads."""

    def __init__(self, config: NodeHome, memberships: Memberships) -> None:
        self._config = config
        self._memberships = memberships
        self._endpoints: dict[str, tuple[str, int]] = {}
        """Node → address and port of its node-api-server, of commands that were started; a member may be gone."""

    def open(self, job_id: str, token: str, wanted: TaskExec) -> Opened:
        """Start the command in the task; return its session."""
        check_arguments(wanted.argv)
        memberships = self._memberships.of_job(job_id)
        found = member_of(memberships, wanted.host)
        if found is None:
            raise NotFoundError(f"host {wanted.host!r}: no task of this job has this name; $GRASS_HOSTS lists them")
        member = found[1]
        self._endpoints[member.node] = self._endpoint(member)
        asked = OpenTaskExec(attempt_text(job_id, member.task, member.attempt), [*wanted.argv], wanted.id)
        answer = self.call(job_id, member.node, token, "POST", "", encode(asked).encode())
        return Opened(opened_name(member.node, TASK_EXEC.open.answered.decode(answer).id))

    def call(self, job_id: str, node: str, token: str, method: str, path: str, body: bytes) -> Raw:
        """Return a node's answer to ``/v1/tasks/exec/<path>``, unread. Raises NodeUnreachableError, or its error."""
        address, port = self._endpoints.get(node) or self._known(job_id, node)
        target = f"{TASK_EXEC.open.path}/{path}".rstrip("/")
        link = NodeLink(self._config, node, address, port, token, CONNECT_SECONDS)
        try:
            status, content = link.exchange(method, target, body or None, SECONDS)
            if status < 300:
                return _JSON.decode(content)
        except (*FAILURES, UndecodableError) as error:
            there = network_address(address, port)
            raise NodeUnreachableError(
                f"node {node}: not reachable at {there} ({error}); check that firewalls between nodes let this TCP "
                "port pass"
            ) from error
        raise refusal(content) or NodeUnreachableError(
            f"node {node}: its API answered with status {status} and no reason"
        )

    def _known(self, job_id: str, node: str) -> tuple[str, int]:
        for membership in self._memberships.of_job(job_id).values():
            for member in membership.members:
                if member.node == node:
                    return self._endpoint(member)
        raise NotFoundError(f"node {node}: runs no task of this job now")

    def _endpoint(self, member: Member) -> tuple[str, int]:
        if member.node == self._config.node.name:
            return self._config.node.address, self._config.node.api_port
        return member.node_address or member.address, member.api_port
