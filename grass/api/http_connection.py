"""One HTTP exchange at a time over a connection that is kept: ``http.client`` with every failure an OSError."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any

CONNECT_SECONDS = 5.0
"""Seconds; a handshake takes less than one even around the world, and may have to be repeated."""

OpenSocket = Callable[[str, int], socket.socket]
"""Opens a socket to there by another open_socket than the network."""


class NotHttpError(OSError):
    """The other side closed the connection within its reply, or says what is not HTTP."""


class Connection:
    """To ``(host, port)``, made when it is first needed."""

    def __init__(self, address: tuple[str, int], open_socket: OpenSocket | None = None) -> None:
        self._http = _Direct(*address) if open_socket is None else _Tunnelled(*address, open_socket)
        self._reply: Reply | None = None

    def request(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None = None, *, timeout: float
    ) -> Reply:
        """``timeout``: seconds without a byte, until the head of the reply is here and after that."""
        with _translated():
            if self._reply is not None:
                self._reply.read()  # what is left of it, which nobody waited for
            self._http.timeout = timeout
            if self._http.sock is not None:
                self._http.sock.settimeout(timeout)
            self._http.request(method, target, body, dict(headers))
            sock = self._http.sock
            self._reply = Reply(self._http.getresponse(), sock)
            return self._reply

    def close(self) -> None:
        """What is left of the last reply is lost."""
        if self._reply is not None:
            self._reply.abandon()
        self._http.close()


class Reply:
    """Its head was read; the body is read by ``read``, or line by line."""

    def __init__(self, response: HTTPResponse, sock: socket.socket | None) -> None:
        self._response = response
        self._socket = sock
        self.status = response.status
        self.content_type = response.headers.get_content_type()
        self.closes = response.will_close
        """The connection is of no use after this."""

    def wait_at_most(self, seconds: float) -> None:
        """For each further byte, from now on."""
        if self._socket is not None:
            self._socket.settimeout(seconds)

    def abandon(self) -> None:
        """The rest of the body is not read; the connection is of no use after this."""
        self._response.close()

    def read(self) -> bytes:
        """All that is left."""
        with _translated():
            return self._response.read()

    def readline(self) -> bytes:
        """The next line, with its end unless the body ends without one; empty at the end of the body."""
        with _translated():
            return self._response.readline()


class _Direct(HTTPConnection):
    """A machine without power, or a firewall that drops, says nothing at all: who waits for a connection waits less."""

    timeout: float

    def connect(self) -> None:
        host: Any = self.host.encode() if self.host.isascii() else self.host  # a str would have Python import IDNA
        self.sock = socket.create_connection((host, self.port), min(self.timeout, CONNECT_SECONDS))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.settimeout(self.timeout)


class _Tunnelled(HTTPConnection):
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
