"""A gateway in front of a real Kubernetes API server, with the faults of networks and busy servers: cuts, half lines,
refusals, and answers that are lost after the request was carried out."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPException, HTTPResponse, HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import urlsplit

from grass.kubernetes.credentials import Credentials


class Asked(NamedTuple):
    method: str
    path: str


class Fault(NamedTuple):
    """``when``: which requests it meets. ``times``: how many.

    ``status``: answer so, with ``retry_after`` seconds; ``carried_out``: after the server has answered. Without a
    status, the connection is closed. ``after_bytes``: only once so many bytes of the body were passed on.
    ``silent``: nothing of a websocket is passed to the client once it is open, not even its end.
    """

    when: Callable[[Asked], bool]
    times: int = 1
    status: int | None = None
    reason: str = ""
    message: str = ""
    retry_after: int = 0
    carried_out: bool = False
    after_bytes: int | None = None
    silent: bool = False


class Gateway:
    """Listens on a port of its own, without TLS, for clients without credentials; it has those of an administrator."""

    def __init__(self, credentials: Credentials, ca: str, certificate: str, key: str) -> None:
        address = urlsplit(credentials.server)
        self.to = (address.hostname or "", address.port or 443)
        self.tls = ssl.create_default_context(cafile=ca)
        self.tls.load_cert_chain(certificate, key)
        self.faults: list[Fault] = []
        self.asked: list[Asked] = []
        """Requests, in the order in which they came."""
        self.shut = False
        """Whether connections are refused."""
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.credentials = Credentials(f"http://127.0.0.1:{self._server.server_port}", token="any")
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self.cut()

    def cut(self) -> None:
        """Close all connections, in the middle of whatever is sent."""
        with self._lock:
            for each in self._open:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def meets(self, asked: Asked) -> Fault | None:
        with self._lock:
            self.asked.append(asked)
            for index, fault in enumerate(self.faults):
                if fault.when(asked):
                    left = fault._replace(times=fault.times - 1)
                    self.faults[index : index + 1] = [left] if left.times else []
                    return fault
        return None

    def opened(self, each: socket.socket) -> None:
        with self._lock:
            self._open.add(each)

    def closed(self, each: socket.socket) -> None:
        with self._lock:
            self._open.discard(each)


_OF_WEBSOCKETS = (
    "upgrade",
    "connection",
    "origin",
    "sec-websocket-key",
    "sec-websocket-version",
    "sec-websocket-protocol",
)


def _copy(source: socket.socket, to: socket.socket, most: int | None = None) -> None:
    """Pass bytes on until the source ends, and end the other side then. ``most``: of them."""
    left = most if most is not None else 1 << 62
    with suppress(OSError, ValueError):
        while left > 0 and (piece := source.recv(min(65536, left))):
            to.sendall(piece)
            left -= len(piece)
    with suppress(OSError):
        to.shutdown(socket.SHUT_RDWR)


def _handler(gateway: Gateway) -> type[BaseHTTPRequestHandler]:
    return type("Handler", (_Handler,), {"gateway": gateway})


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    gateway: Gateway

    def setup(self) -> None:
        super().setup()
        self.gateway.opened(self.connection)

    def finish(self) -> None:
        self.gateway.closed(self.connection)
        with suppress(OSError):
            super().finish()

    def log_message(self, *_: object) -> None:
        return

    def pass_on(self) -> None:
        if self.gateway.shut:
            self.close_connection = True
            return
        asked = Asked(self.command, self.path)
        fault = self.gateway.meets(asked)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if fault is not None and not (fault.carried_out or fault.silent or fault.after_bytes is not None):
            self.refuse(fault)
            return
        if self.headers.get("Upgrade"):
            self.tunnel(fault)
            return
        kept = {name: value for name, value in self.headers.items() if name in ("Accept", "Content-Type")}
        upstream = HTTPSConnection(*self.gateway.to, context=self.gateway.tls)
        try:
            upstream.request(self.command, self.path, body or None, kept)
            response = upstream.getresponse()
            if fault is not None and fault.carried_out:
                response.read()
                self.refuse(fault)
            else:
                self.answer(response, fault.after_bytes if fault else None)
        except (OSError, HTTPException):
            self.close_connection = True
        finally:
            upstream.close()

    def tunnel(self, fault: Fault | None) -> None:
        """Pass on a websocket."""
        self.close_connection = True
        kept = [f"{name}: {value}" for name, value in self.headers.items() if name.lower() in _OF_WEBSOCKETS]
        with (
            socket.create_connection(self.gateway.to) as plain,
            self.gateway.tls.wrap_socket(plain, server_hostname=self.gateway.to[0]) as upstream,
        ):
            upstream.sendall("\r\n".join([self.requestline, "Host: server", *kept, "", ""]).encode())
            if fault is not None and fault.silent:
                head = b""
                while not head.endswith(b"\r\n\r\n"):
                    head += upstream.recv(1)
                self.connection.sendall(head)
                _copy(self.connection, upstream)
                return
            threading.Thread(target=_copy, args=(self.connection, upstream), daemon=True).start()
            _copy(upstream, self.connection, fault.after_bytes if fault else None)

    def refuse(self, fault: Fault) -> None:
        if fault.status is None:
            self.close_connection = True
            return
        said = {"kind": "Status", "status": "Failure", "message": fault.message, "reason": fault.reason}
        text = json.dumps({**said, "code": fault.status}).encode()
        self.send_response(fault.status)
        if fault.retry_after:
            self.send_header("Retry-After", str(fault.retry_after))
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def answer(self, response: HTTPResponse, most: int | None) -> None:
        self.send_response(response.status)
        self.send_header("Content-Type", response.headers.get("Content-Type", ""))
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        passed = 0
        while piece := response.read1(65536):
            if most is not None and passed + len(piece) > most:
                self.chunk(piece[: most - passed])
                self.close_connection = True
                return
            passed += len(piece)
            self.chunk(piece)
        self.wfile.write(b"0\r\n\r\n")

    def chunk(self, piece: bytes) -> None:
        if piece:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.flush()

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = pass_on
