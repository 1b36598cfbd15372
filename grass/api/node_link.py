"""A call of a node-api-server over HTTP: of the master, or of another node for a task.

Its answer is bounded: a node that was taken over must not fill the memory of its caller. Used by
``master.node_calls.client`` and ``node.membership.forwarding``.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import NamedTuple

from grass import tls
from grass.api.error_reply import error_of
from grass.config import ClusterConfig
from grass.errors import CertificateError, GrassError, UndecodableError
from grass.model.amounts import show_memory
from grass.system import clock
from grass.tls_files import node_identity
from grass.wire.membership_api import REFUSAL

FAILURES = (OSError, HTTPException, ValueError, CertificateError)
"""What an exchange raises. ValueError: an address that is none."""
MOST = 16 << 20
"""Bytes. The longest answer of a sound node is the last words of a forward: 8 MiB, encoded in base64."""


class NodeLink(NamedTuple):
    """Where the API of a node listens. ``seconds`` for a connection: a firewall may drop packets without an answer."""

    config: ClusterConfig
    node: str
    address: str
    port: int
    token: str
    seconds: float

    def exchange(
        self,
        method: str,
        target: str,
        body: bytes | None,
        seconds: float,
        wait: Callable[[socket.socket], None] = lambda _: None,
    ) -> tuple[int, bytes]:
        """Return the status and the body of an answer. ``wait``: is called before it is read."""
        config = self.config
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        connection = HTTPConnection(self.address, self.port, timeout=self.seconds)
        try:
            connection.connect()
            if config.tls:
                connection.sock = tls.wrap(connection.sock, config.tls_files, node_identity(config.name, self.node))
            connection.sock.settimeout(seconds)
            connection.request(method, target, body, headers)
            wait(connection.sock)
            response = connection.getresponse()
            return response.status, read_body(response, seconds)
        finally:
            connection.close()


def refusal(body: bytes) -> GrassError | None:
    """Return the error with which a node refused a call. None: this is no refusal of Grass."""
    try:
        error = REFUSAL.decode(body).error
    except UndecodableError:
        return None
    return error_of({"code": error.code, "message": error.message})


def read_body(response: HTTPResponse, seconds: float, most: int = MOST) -> bytes:
    """Return the body. Raises OSError for one of more than ``most`` bytes, or one that takes longer than ``seconds``.

    A single read waits as long as the time-out of the socket says.
    """
    until = clock.steady() + seconds
    pieces: list[bytes] = []
    size = 0
    while piece := response.read1(1 << 16):
        pieces.append(piece)
        size += len(piece)
        if size > most:
            raise OSError(f"its answer has more than {show_memory(most)}")
        if clock.steady() > until:
            raise TimeoutError(f"its answer took longer than {seconds:g} s")
    return b"".join(pieces)
