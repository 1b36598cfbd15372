"""A kept-alive HTTP connection for one exchange at a time. All failures are OSErrors. Used by ``transport``."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse
from types import MappingProxyType
from typing import Any

CONNECT_SECONDS = 5.0
"""Limit for connecting. A handshake takes less than a second even around the world; a packet may be lost."""

OpenSocket = Callable[[str, int], socket.socket]
"""Opens a socket to a host and port, for example through an SSH tunnel."""


class NotHttpError(OSError):
    """The peer closed the connection during its reply, or does not speak HTTP."""


class Connection:
    """A connection to ``(host, port)``, opened with the first request."""

    def __init__(self, address: tuple[str, int], open_socket: OpenSocket | None = None) -> None:
        self._http = _Direct(*address) if open_socket is None else _Tunnelled(*address, open_socket)
        self._reply: Reply | None = None

    def request(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None = None, *, timeout: float
    ) -> Reply:
        """Send a request and read the head of its reply. ``timeout``: seconds without a received byte, then and
        later."""
        with _translated():
            if self._reply is not None:
                self._reply.read()  # the unread rest of the previous reply
            self._http.timeout = timeout
            if self._http.sock is not None:
                self._http.sock.settimeout(timeout)
            self._http.request(method, target, body, dict(headers))
            sock = self._http.sock
            self._reply = Reply(self._http.getresponse(), sock)
            return self._reply

    def close(self) -> None:
        """Close the connection. The unread rest of the last reply is lost."""
        if self._reply is not None:
            self._reply.abandon()
        self._http.close()


class Reply:
    """A reply whose head was read. ``read`` or ``readline`` read the body."""

    def __init__(self, response: HTTPResponse, sock: socket.socket | None) -> None:
        self._response = response
        self._socket = sock
        self.status = response.status
        self.content_type = response.headers.get_content_type()
        self.closes = response.will_close
        """Whether the server closes the connection after this reply."""

    def wait_at_most(self, seconds: float) -> None:
        """Set the timeout for each further byte."""
        if self._socket is not None:
            self._socket.settimeout(seconds)

    def abandon(self) -> None:
        """Do not read the rest of the body. The connection cannot be used again."""
        self._response.close()

    def read(self) -> bytes:
        """Return the rest of the body."""
        with _translated():
            return self._response.read()

    def readline(self) -> bytes:
        """Return the next line with its newline; empty at the end of the body."""
        with _translated():
            return self._response.readline()


class _AtOnce(HTTPConnection):
    """Sends the head and the body of a request together. Else the server would wake up for each of them."""

    _held: list[bytes] | None = None

    def request(
        self, method: str, url: str, body: Any = None, headers: Any = MappingProxyType({}), **more: Any
    ) -> None:
        self._held = []
        try:
            super().request(method, url, body, headers, **more)
        finally:
            held, self._held = self._held, None
        super().send(b"".join(held))

    def send(self, data: Any) -> None:
        if self._held is None:
            super().send(data)
        else:
            self._held.append(data)


class _Direct(_AtOnce):
    """Limits the time to connect separately: a machine without power, or a firewall, does not answer at all."""

    timeout: float

    def connect(self) -> None:
        host: Any = self.host.encode() if self.host.isascii() else self.host  # bytes: no import of IDNA
        self.sock = socket.create_connection((host, self.port), min(self.timeout, CONNECT_SECONDS))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.settimeout(self.timeout)


class _Tunnelled(_AtOnce):
    timeout: float

    def __init__(self, host: str, port: int, open_socket: OpenSocket) -> None:
        super().__init__(host, port)
        self._open_socket = open_socket

    def connect(self) -> None:
        self.sock = self._open_socket(self.host, self.port)
        self.sock.settimeout(self.timeout)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except HTTPException as error:
        raise NotHttpError(str(error) or type(error).__name__) from error
