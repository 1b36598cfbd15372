"""One kept-alive connection to an API server. All failures are OSErrors. Used by ``api``, and by what upgrades it."""

from __future__ import annotations

import base64
import os
import socket
import ssl
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from grass.errors import InputError, UnreachableError
from grass.kubernetes.credentials import Credentials

CONNECT_SECONDS = 10.0
_PROBE_AFTER, _PROBE_EVERY, _PROBES = 30, 10, 3
"""TCP keepalive: a peer that is gone without a word is noticed after about a minute."""


class BrokenReplyError(OSError):
    """The server closed the connection during its reply, or does not speak HTTP."""


class Endpoint(NamedTuple):
    """A server, ready to be connected to."""

    host: str
    port: int
    path: str
    """In front of all paths, for a server behind a gateway."""
    tls: ssl.SSLContext | None
    credentials: Credentials


def endpoint(credentials: Credentials) -> Endpoint:
    """Return where to connect. Raises InputError for an address or a certificate that cannot be used,
    UnreachableError: not now."""
    wrong = InputError(f"the address of the API server, {credentials.server!r}, is not https://HOST[:PORT]")
    try:
        url = urlsplit(credentials.server)
        port = url.port or (443 if url.scheme == "https" else 80)
    except ValueError as error:
        raise wrong from error
    if url.scheme not in ("http", "https") or not url.hostname:
        raise wrong
    tls = _tls(credentials) if url.scheme == "https" else None
    return Endpoint(url.hostname, port, url.path.rstrip("/"), tls, credentials)


def _tls(credentials: Credentials) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=credentials.ca)
        if not credentials.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if credentials.certificate and credentials.key:
            # ssl takes a file only; this one is in memory, and gone at once
            with os.fdopen(os.memfd_create("client.pem"), "wb") as pem:
                pem.write(f"{credentials.certificate}\n{credentials.key}\n".encode())
                pem.flush()
                context.load_cert_chain(f"/proc/self/fd/{pem.fileno()}")
    except (ssl.SSLError, ValueError) as error:
        raise InputError(f"the certificates for {credentials.server} cannot be used: {error}") from error
    except OSError as error:  # a full disk
        raise UnreachableError(f"the certificates for {credentials.server} cannot be loaded now: {error}") from error
    return context


class Connection:
    """One exchange at a time. ``timeout``: seconds without a byte."""

    def __init__(self, to: Endpoint) -> None:
        self.to = to
        self.used = False
        """Whether an exchange has succeeded: the server may have closed it since."""
        self._http = _opened(to)
        self._sock: socket.socket | None = None
        """Its socket, also of a reply that ends with the connection: ``http.client`` forgets it then."""
        self._response: HTTPResponse | None = None

    def request(
        self, method: str, target: str, headers: dict[str, str], body: bytes | None, timeout: float
    ) -> HTTPResponse:
        """Send a request and read the head of the reply."""
        if self._http.sock is None:
            self._connect()
        assert self._http.sock is not None
        self._http.sock.settimeout(timeout)
        try:
            self._http.request(method, self.to.path + target, body, headers)
            self._response = self._http.getresponse()
        except HTTPException as error:
            raise BrokenReplyError(str(error) or type(error).__name__) from error
        return self._response

    def close(self) -> None:
        if self._response is not None:
            self._response.close()
        self._http.close()

    def abort(self) -> None:
        """Let a read that waits in another thread fail now."""
        if self._sock is not None:
            with suppress(OSError):
                self._sock.shutdown(socket.SHUT_RDWR)

    def _connect(self) -> None:
        self._http.connect()
        self._sock = self._http.sock
        assert self._http.sock is not None
        self._http.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in (
            (socket.TCP_KEEPIDLE, _PROBE_AFTER),
            (socket.TCP_KEEPINTVL, _PROBE_EVERY),
            (socket.TCP_KEEPCNT, _PROBES),
        ):
            self._http.sock.setsockopt(socket.IPPROTO_TCP, option, value)


def _opened(to: Endpoint) -> HTTPConnection:
    proxy = urlsplit(to.credentials.proxy) if to.credentials.proxy else None
    host, port = (to.host, to.port) if proxy is None else (proxy.hostname or "", proxy.port or 8080)
    if to.tls is None:
        return HTTPConnection(host, port, CONNECT_SECONDS)
    made = _Named(host, port, timeout=CONNECT_SECONDS, context=to.tls)
    made.server_name = to.credentials.server_name
    if proxy is not None:
        made.set_tunnel(to.host, to.port, _proxy_headers(proxy.username, proxy.password))
    return made


class _Named(HTTPSConnection):
    """Expects ``server_name`` in the server's certificate, which may be another than the host's."""

    server_name: str | None = None

    def connect(self) -> None:
        if self.server_name is None:
            super().connect()
            return
        HTTPConnection.connect(self)
        self.sock = self._context.wrap_socket(self.sock, server_hostname=self.server_name)  # type: ignore[attr-defined]


def _proxy_headers(user: str | None, password: str | None) -> dict[str, str]:
    if user is None:
        return {}
    pair = f"{unquote(user)}:{unquote(password or '')}".encode()
    return {"Proxy-Authorization": "Basic " + base64.b64encode(pair).decode()}
