"""Commands in other tasks of a job: passed on to the node-api-server of the node that runs the task.

The caller's own token goes along; that node checks it with the job's secret. So nodes need no secret in common. Used by
``api`` and ``service``.
"""

from __future__ import annotations

import http.client

import msgspec
from msgspec import Raw

from grass import tls
from grass.api.bounded_body import read_body
from grass.api.error_reply import error_of
from grass.config import ClusterConfig
from grass.errors import (
    CertificateError,
    GrassError,
    NodeUnreachableError,
    NotFoundError,
    UndecodableError,
)
from grass.frameworks.seat import member_of
from grass.model.key_text import attempt_text, opened_name
from grass.network_address import network_address
from grass.tls_files import node_identity
from grass.wire.codec import Form, encode
from grass.wire.membership import Member
from grass.wire.membership_api import ExecSession, TaskExec, check_arguments
from node.membership.memberships import Memberships

CONNECT_SECONDS = 3.0
SECONDS = 30.0
"""Longer than a request for output waits at the node."""


class _Failure(msgspec.Struct, frozen=True):
    code: str
    message: str


class _Failed(msgspec.Struct, frozen=True):
    """A refusal of a node-api-server."""

    error: _Failure


_JSON: Form[Raw] = Form(Raw)
_SESSION: Form[ExecSession] = Form(ExecSession)
_FAILED: Form[_Failed] = Form(_Failed)


class Forwarding:
    """Passes requests about commands on to other nodes. Safe for many threads."""

    def __init__(self, config: ClusterConfig, memberships: Memberships) -> None:
        self._config = config
        self._memberships = memberships
        self._endpoints: dict[str, tuple[str, int]] = {}
        """Node → address and port of its node-api-server, of commands that were started; a member may be gone."""

    def open(self, job_id: str, token: str, wanted: TaskExec) -> ExecSession:
        """Start the command in the task; return its session."""
        check_arguments(wanted.argv)
        memberships = self._memberships.of_job(job_id)
        found = member_of(memberships, wanted.host)
        if found is None:
            raise NotFoundError(f"host {wanted.host!r}: no task of this job has this name; $GRASS_HOSTS lists them")
        member = found[1]
        self._endpoints[member.node] = self._endpoint(member)
        body = {"key": attempt_text(job_id, member.task, member.attempt), "argv": wanted.argv, "id": wanted.id}
        answer = self.call(job_id, member.node, token, "POST", "", encode(body).encode())
        return ExecSession(opened_name(member.node, _SESSION.decode(answer).id))

    def call(self, job_id: str, node: str, token: str, method: str, path: str, body: bytes) -> Raw:
        """Return a node's answer to ``/v1/tasks/exec/<path>``, unread. Raises NodeUnreachableError, or its error."""
        address, port = self._endpoints.get(node) or self._known(job_id, node)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        connection = http.client.HTTPConnection(address, port, timeout=CONNECT_SECONDS)
        try:
            connection.connect()
            if self._config.tls:
                there = node_identity(self._config.name, node)
                connection.sock = tls.wrap(connection.sock, self._config.tls_files, there)
            connection.sock.settimeout(SECONDS)
            connection.request(method, f"/v1/tasks/exec/{path}".rstrip("/"), body or None, headers)
            response = connection.getresponse()
            status, content = response.status, read_body(response, SECONDS)
            answer = _JSON.decode(content) if status < 300 else Raw()
        except (OSError, http.client.HTTPException, UndecodableError, CertificateError) as error:
            there = network_address(address, port)
            raise NodeUnreachableError(
                f"node {node}: not reachable at {there} ({error}); check that firewalls between nodes let this TCP "
                "port pass"
            ) from error
        finally:
            connection.close()
        if status >= 300:
            raise _error(node, status, content)
        return answer

    def _known(self, job_id: str, node: str) -> tuple[str, int]:
        for membership in self._memberships.of_job(job_id).values():
            for member in membership.members:
                if member.node == node:
                    return self._endpoint(member)
        raise NotFoundError(f"node {node}: runs no task of this job now")

    def _endpoint(self, member: Member) -> tuple[str, int]:
        if member.node == self._config.node.name:
            return self._config.node.address, self._config.node.api_port
        return member.address, member.api_port


def _error(node: str, status: int, content: bytes) -> GrassError:
    try:
        failure = _FAILED.decode(content).error
    except UndecodableError:
        return NodeUnreachableError(f"node {node}: its API answered with status {status} and no reason")
    return error_of({"code": failure.code, "message": failure.message})
