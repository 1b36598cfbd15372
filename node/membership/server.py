"""The socket of the membership API: HTTP over a Unix socket that every task of this node can reach.

One thread per connection, in the node-agent. So the number of connections is bounded, and that of requests that wait.
"""

from __future__ import annotations

import logging
import socketserver
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from typing import Any

from grass.config import ClusterConfig
from grass.errors import ConflictError, GrassError, InputError
from grass.wire.codec import encode
from node.membership.api import Api, Request
from node.membership.paths import api_folder, api_socket

MOST_CONNECTIONS = 1024
MOST_OPEN = 4096
"""Connections, also those that ask nothing. A further one is closed before it costs a thread."""
MOST_BODY = 1 << 17
"""Bytes; input of a command comes in pieces of 32 KiB, encoded."""
HEAD_SECONDS = 10.0
"""Limit for a request to arrive. A slow program must not occupy a thread."""

log = logging.getLogger(__name__)


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256

    def __init__(self, config: ClusterConfig, api: Api) -> None:
        self.api = api
        self.free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._places = threading.BoundedSemaphore(MOST_OPEN)
        folder, path = api_folder(config), api_socket(config)
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)  # containers of any user mount it; the folder above belongs to the agent only
        path.unlink(missing_ok=True)
        super().__init__(str(path), Handler)
        path.chmod(0o666)

    def start(self) -> None:
        threading.Thread(target=self.serve_forever, args=(0.5,), name="membership-api", daemon=True).start()

    def stop(self) -> None:
        self.shutdown()
        self.server_close()

    def verify_request(self, request: Any, client_address: Any) -> bool:
        return self._places.acquire(blocking=False)

    def process_request(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread was started
            self._places.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("a request of a task failed", exc_info=True)  # it went away


class Handler(BaseHTTPRequestHandler):
    server: Server
    timeout = HEAD_SECONDS
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer()

    do_POST = do_PUT = do_DELETE = do_GET

    def _answer(self) -> None:
        self.close_connection = True
        try:
            if not self.server.free.acquire(blocking=False):
                raise ConflictError(f"this node answers {MOST_CONNECTIONS} requests of tasks already; try again")
            try:
                status, body = 200, encode(self.server.api.answer(self._read()))
            finally:
                self.server.free.release()
        except GrassError as error:
            status, body = error.http_status, encode({"error": {"code": error.code, "message": str(error)}})
        with suppress(OSError):
            self._write(status, body.encode())

    def _read(self) -> Request:
        length = self.headers.get("Content-Length", "0")
        if not length.isdecimal() or int(length) > MOST_BODY:
            raise InputError(f"the body must have at most {MOST_BODY} bytes")
        try:
            body = self.rfile.read(int(length))
        except OSError as error:
            raise InputError("the body did not arrive") from error
        return Request(self.command, self.path, self.headers.get("Authorization", ""), body)

    def _write(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: a pulse is a request."""

    def address_string(self) -> str:
        return "task"
