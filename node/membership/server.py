"""The socket of the membership API: HTTP over a Unix socket that every task of this node can reach.

In the node-agent: an event loop reads requests, so a connection costs no thread until its request is complete. Each
complete request has a thread of its own while it is answered. The number of both is bounded. Used by ``service``.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from io import BytesIO
from pathlib import Path
from typing import Any

from grass import __version__
from grass.config import ClusterConfig
from grass.errors import ConflictError, GrassError, InputError
from grass.serving.front import Answered, Front, Limits
from grass.wire.codec import encode
from grass.wire.membership_api import MOST_BODY
from grass.wire.version import HEADER, spoken
from node.membership.api import Api, Request
from node.membership.paths import api_folder, api_socket

MOST_REQUESTS = 1024
"""Requests that are answered at once, also those that wait."""
LIMITS = Limits(connections=4096, of_address=4096, answered=4096, body=MOST_BODY)
"""No request queues: what it waits for may be another task, whose request would be behind it."""
_STOP_SECONDS = 5.0

log = logging.getLogger(__name__)


class Server:
    """The server of ``tasks/api.sock``.

    ``start`` and ``stop`` are each called once.
    """

    def __init__(self, config: ClusterConfig, api: Api, limits: Limits = LIMITS, most_requests: int = MOST_REQUESTS):
        self._api = api
        self._most_requests = most_requests
        self._free = threading.BoundedSemaphore(most_requests)
        folder, self.path = api_folder(config), Path(api_socket(config))
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)  # containers of any user mount it; the folder above belongs to the agent only
        self.path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(self.path))
        self.path.chmod(0o666)
        self._listener.listen(256)
        self._loop = asyncio.new_event_loop()
        self._front = Front(self._loop, _OneThreadEach(), self._handle, _refused, limits)
        self._thread = threading.Thread(target=self._run, name="membership-api", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Take no more requests. Those that wait end with the process."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        self._loop.call_soon(self._front.listen, self._listener)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._front.stop(0.0))
        finally:
            self._loop.close()
            self._listener.close()

    def _handle(self, peer: socket.socket, address: tuple[str, int], raw: bytes) -> Answered:
        """Answer one request. Runs in a thread of its own."""
        request: Request | None = None
        try:
            request = _parsed(raw)
            if not self._free.acquire(blocking=False):
                raise ConflictError(f"this node answers {self._most_requests} requests of tasks already; try again")
            try:
                status, body = 200, encode(self._api.answer(request))
            finally:
                self._free.release()
        except GrassError as error:
            status, body = self._refusal(error, request)
        except Exception:  # a request must not end the node-agent
            log.exception("internal error: a request of a task failed")
            status, body = self._refusal(GrassError("internal error; see the node-agent's log"), request)
        return Answered(False, _reply(status, body.encode()))

    def _refusal(self, error: GrassError, request: Request | None) -> tuple[int, str]:
        return error.http_status, encode(self._api.refusal(error, request))


class _OneThreadEach(Executor):
    """Starts a thread for each request, and keeps none: most requests of a node come together, after a change."""

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **_: Any) -> Future[Any]:
        threading.Thread(target=work, args=arguments, name="membership-request", daemon=True).start()
        return Future()


class _Head(BaseHTTPRequestHandler):
    """Parses the head of a request that has arrived as a whole. ``problem``: what is wrong with it."""

    def __init__(self, raw: bytes) -> None:
        self.rfile = BytesIO(raw)
        self.raw_requestline = self.rfile.readline()
        self.problem = ""
        self.parse_request()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        self.problem = message or HTTPStatus(code).phrase


def _parsed(raw: bytes) -> Request:
    head = _Head(raw)
    if head.problem:
        raise InputError(f"the request: {head.problem}")
    return Request(head.command, head.path, head.headers.get("Authorization", ""), head.rfile.read())


def _reply(status: int, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: application/json\r\n"
    head += f"{HEADER}: {spoken(__version__).header}\r\n"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


def _refused(address: str, why: str) -> None:
    log.debug("a request of a task was refused: %s", why)
