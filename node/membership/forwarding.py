"""Commands in other tasks of a job: passed on to the node-api-server of the node that runs the task.

The caller's own token goes along; that node checks it with the job's secret. So nodes need no secret in common.
"""

from __future__ import annotations

import http.client
import json
from typing import Any

from grass.api.transport import error_of
from grass.config import ClusterConfig
from grass.errors import GrassError, InputError, NodeUnreachableError, NotFoundError
from grass.frameworks.seat import member_of
from grass.wire.membership import Member
from grass.wire.membership_api import TaskExec
from node.membership.memberships import Memberships

CONNECT_SECONDS = 3.0
SECONDS = 30.0
"""Longer than a request for output waits at the node."""
MOST_ARGUMENTS = 1 << 16


class Forwarding:
    def __init__(self, config: ClusterConfig, memberships: Memberships) -> None:
        self._config = config
        self._memberships = memberships
        self._places: dict[str, tuple[str, int]] = {}
        """Node → address and port of its node-api-server, of commands that were started; a member may be gone."""

    def open(self, job_id: str, token: str, wanted: TaskExec) -> object:
        """Start the command in the task; return its session."""
        if not wanted.argv or sum(map(len, wanted.argv)) > MOST_ARGUMENTS:
            raise InputError(f"argv: must be a command, of at most {MOST_ARGUMENTS} characters")
        memberships = self._memberships.of_job(job_id)
        found = member_of(memberships, wanted.host)
        if found is None:
            raise NotFoundError(f"host {wanted.host!r}: no task of this job has this name; $GRASS_HOSTS lists them")
        member = found[1]
        self._places[member.node] = self._place(member)
        body = {"key": f"{job_id}/{member.task}/{member.attempt}", "argv": wanted.argv, "id": wanted.id}
        answer = self.call(job_id, member.node, token, "POST", "", json.dumps(body).encode())
        return {"id": f"{member.node}:{answer.get('id')}"}

    def call(self, job_id: str, node: str, token: str, method: str, path: str, body: bytes) -> dict[str, Any]:
        """Return a node's answer to ``/v1/tasks/exec/<path>``. Raises NodeUnreachableError, or its error."""
        address, port = self._places.get(node) or self._known(job_id, node)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        connection = http.client.HTTPConnection(address, port, timeout=CONNECT_SECONDS)
        try:
            connection.connect()
            connection.sock.settimeout(SECONDS)
            connection.request(method, f"/v1/tasks/exec/{path}".rstrip("/"), body or None, headers)
            response = connection.getresponse()
            status, answer = response.status, _object(response.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NodeUnreachableError(
                f"node {node}: not reachable at {address}:{port} ({error}); check that firewalls between nodes let "
                "this TCP port pass"
            ) from error
        finally:
            connection.close()
        if status >= 300:
            raise _error(node, status, answer)
        return answer

    def _known(self, job_id: str, node: str) -> tuple[str, int]:
        for membership in self._memberships.of_job(job_id).values():
            for member in membership.members:
                if member.node == node:
                    return self._place(member)
        raise NotFoundError(f"node {node}: runs no task of this job now")

    def _place(self, member: Member) -> tuple[str, int]:
        if member.node == self._config.node.name:
            return self._config.node.address, self._config.node.api_port
        return member.address, member.api_port


def _object(body: bytes) -> dict[str, Any]:
    """Return a JSON object. Raises ValueError."""
    found = json.loads(body)
    if not isinstance(found, dict):
        raise ValueError("its answer is no JSON object")
    return found


def _error(node: str, status: int, answer: dict[str, Any]) -> GrassError:
    match answer:
        case {"error": {"code": str(), "message": str()} as error}:
            return error_of({**error, "problems": []})
    return NodeUnreachableError(f"node {node}: its API answered with status {status} and no reason")
