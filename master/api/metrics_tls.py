"""Serves ``/metrics`` over TLS to scrapers on other machines, in threads of the API server. Nothing else is served.

Files that were renewed are used from the next connection on. While files are wrong or the port is taken, the log says
so, and the server tries again: metrics are not worth an API that does not start.
"""

from __future__ import annotations

import logging
import socket
import ssl
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from grass.api.metrics_tls import load_context
from grass.errors import InputError
from grass.model.metrics import MetricsListen
from grass.network_address import host_and_port
from grass.system import clock

AT_ONCE = 8
"""Connections; more are closed."""
SECONDS = 20.0
"""For a whole connection: handshake, request and page."""
RETRY = 30.0
"""Seconds until a server that could not start tries again."""

log = logging.getLogger("grass.api")

Answer = Callable[[str, bool], tuple[int, str, bytes]]
"""(``Authorization`` header, whether the client has a certificate) → status, content type, body."""


class MetricsServer:
    """The server of ``/metrics`` over TLS.

    ``answer`` makes the page, or refuses. ``retry``: as ``RETRY``.
    """

    def __init__(self, listen: MetricsListen, answer: Answer, retry: float = RETRY) -> None:
        self._listen = listen
        self._answer = answer
        self._retry = retry
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._server: _Server | None = None
        self.trouble = ""
        """Why it does not listen; empty: it does, or has not tried yet."""
        self._thread = threading.Thread(target=self._run, name="metrics-tls", daemon=True)

    @property
    def port(self) -> int:
        """The port, once it listens; otherwise 0."""
        return 0 if self._server is None else self._server.server_port

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the server, and wait for its thread."""
        with self._lock:
            self._stopped.set()
            server = self._server
        if server is not None:
            server.shutdown()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                server = _Server(self._listen, self._answer)
            except (InputError, OSError) as error:
                said = f"metrics.listen: {self._listen.listen}: {error}" if isinstance(error, OSError) else str(error)
                if said != self.trouble:
                    log.error("metrics over TLS are not served; trying again: %s", said)
                self.trouble = said
                self._stopped.wait(self._retry)
                continue
            with self._lock:
                self._server, self.trouble = server, ""
                if self._stopped.is_set():  # ``stop`` did not see this server
                    server.server_close()
                    return
            server.serve_forever()
            server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 2 * AT_ONCE

    def __init__(self, listen: MetricsListen, answer: Answer) -> None:
        self._listen = listen
        self.answer = answer
        self._read: tuple[float, ...] = ()
        self._context: ssl.SSLContext | None = None
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(AT_ONCE)
        self.context()
        host, port = host_and_port(listen.listen)
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        """Bind without asking a name server for the name of this machine, as HTTPServer does."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def context(self) -> ssl.SSLContext:
        """Return the context of the files as they are now. Wrong new files leave the old context in use."""
        with self._lock:
            read = tuple(map(_changed_at, (self._listen.certificate, self._listen.key, self._listen.clients)))
            if self._context is None or read != self._read:
                try:
                    self._context = load_context(self._listen, clock.wall())
                except InputError as error:
                    if self._context is None:
                        raise
                    log.error("metrics over TLS: the new files are not used: %s", error)
                self._read = read
            return self._context

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._slots.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self._slots.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Do the handshake in the connection's own thread. A peer that is silent or drips is cut off."""
        with request.dup() as handle:
            alarm = threading.Timer(SECONDS, _cut, (handle,))
            alarm.daemon = True
            alarm.start()
            try:
                request.settimeout(SECONDS)
                with self.context().wrap_socket(request, server_side=True) as secure:
                    super().finish_request(secure, client_address)
            finally:
                alarm.cancel()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log our own errors, and nothing of peers that are gone or speak no TLS: anybody can make these."""
        if not isinstance(sys.exc_info()[1], OSError):
            log.exception("metrics over TLS: a page failed")


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    connection: ssl.SSLSocket
    server_version, sys_version = "grass", ""

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != "/metrics":
            self._send(404, "text/plain", b"only /metrics is served here\n")
            return
        known = bool(self.connection.getpeercert())
        self._send(*self.server.answer(self.headers.get("Authorization", ""), known))

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if status == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def _changed_at(path: str | None) -> float:
    try:
        return 0.0 if path is None else Path(path).stat().st_mtime_ns
    except OSError:
        return -1.0


def _cut(sock: socket.socket) -> None:
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
