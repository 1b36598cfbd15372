"""A gunicorn worker: its event loop reads requests, and its threads answer them. Used by the API servers.

A subclass says what the limits are, and ends requests that wait when the worker stops.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
import signal
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http import HTTPStatus
from typing import Any, ClassVar

from gunicorn.http.parser import RequestParser
from gunicorn.http.wsgi import create
from gunicorn.workers.base import Worker as BaseWorker

from grass.release import __version__
from grass.serving.front import Answered, Front, Limits, refusal
from grass.serving.outbox import LONGEST_UNSENT, Outbox
from grass.serving.refusals import RefusalLog
from grass.system import process_memory
from grass.system.systemd import Notifier
from grass.tls import ServerContext, TlsSocket
from grass.wire.version import HEADER, spoken

PEER = "grass.peer"
"""Key in the environment of a request: the name in the client's certificate; empty without TLS."""
PEER_SINCE = "grass.peer_since"
"""The same for when that certificate was made, in wall seconds of the master; 0: without TLS."""
STOP_SECONDS = 3
_BEAT_SECONDS = 1.0
WRITE_SECONDS = 30.0
"""How long the peer of a stream may read nothing."""
_DESCRIPTORS = 4096
"""File descriptors: more than the front's connections need."""
_PR_SET_PDEATHSIG = 1


class FrontWorker(BaseWorker):  # type: ignore[misc]
    """gunicorn itself reports readiness to systemd; the worker reports that it is alive."""

    limits: ClassVar[Limits]
    tls: ClassVar[ServerContext | None] = None
    """None: plain HTTP."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._notifier = Notifier()
        self._refusals = RefusalLog()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Event | None = None

    def end_waits(self) -> None:
        """Have requests that wait answered now; their clients retry with the next server."""

    def run(self) -> None:
        _raise_descriptor_limit()
        process_memory.keep_imported()
        with closing(asyncio.new_event_loop()) as self._loop:
            self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        threads = ThreadPoolExecutor(self.limits.answered)
        front = Front(loop, threads, self._answer, self._refusals.write, self.limits, self.tls)
        for listener in self.sockets:
            front.listen(listener.sock)
        while self.alive and self.ppid == os.getppid():
            super().notify()
            self._notifier.beat()
            try:
                await asyncio.wait_for(self._ended.wait(), _BEAT_SECONDS)
            except asyncio.TimeoutError:
                continue
        self.end_waits()
        await front.stop(STOP_SECONDS)
        threads.shutdown(wait=False, cancel_futures=True)

    def handle_exit(self, sig: int, frame: Any) -> None:
        self.alive = False  # all else happens in the loop: a second signal may interrupt this one, and locks
        if self._loop is not None and self._ended is not None:
            self._loop.call_soon_threadsafe(self._ended.set)

    def _answer(self, sock: socket.socket, address: tuple[str, int], raw: bytes) -> Answered:
        """Parse the request, and let the application answer it. Runs in a thread."""
        outbox = Outbox(sock, WRITE_SECONDS)
        try:
            request = next(RequestParser(self.cfg, [raw], address))
            reply, environ = create(request, outbox, address, sock.getsockname(), self.cfg)
        except OSError:
            return Answered(False)
        except Exception as error:  # noqa: BLE001 (gunicorn may raise anything for malformed input)
            self._refusals.write(address[0], f"{type(error).__name__}: {str(error)[:100]!r}")
            return Answered(False, refusal(HTTPStatus.BAD_REQUEST, "the request: it is no HTTP"))
        environ["wsgi.multithread"] = True
        environ[PEER], environ[PEER_SINCE] = (sock.peer, sock.peer_since) if isinstance(sock, TlsSocket) else ("", 0.0)
        if not self.alive:
            reply.force_close()
        pieces = self.wsgi(environ, _stating_the_version(reply.start_response))
        try:
            length = reply.response_length
            outbox.stream = length is None or length > LONGEST_UNSENT
            for piece in pieces:
                reply.write(piece)
                if outbox.stream:
                    outbox.flush()
            reply.close()
            outbox.flush()
        except OSError:
            return Answered(False)  # the peer is gone, or does not read
        except Exception:
            self.log.exception("internal error: a reply was not completed")
            return Answered(False)
        finally:
            if hasattr(pieces, "close"):
                pieces.close()
        return Answered(not reply.should_close(), outbox.take_unsent())


def _stating_the_version(start_response: Any) -> Callable[..., Any]:  # Any: gunicorn has no types
    stated = (HEADER, spoken(__version__).header)

    def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
        return start_response(status, [*headers, stated], *more)

    return start


def die_with_the_arbiter(server: Any, worker: Any) -> None:
    """End the worker when gunicorn's arbiter is killed, so that the port is free for the next arbiter."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def apply_settings(cfg: Any, settings: dict[str, Any]) -> None:  # Any: gunicorn has no types
    """Set gunicorn's settings that this version of gunicorn has: older ones have no control socket."""
    for name, value in settings.items():
        if name in cfg.settings:
            cfg.set(name, value)


def _raise_descriptor_limit() -> None:
    """Raise the limit of open files: the usual 1,024 is less than the front's connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
