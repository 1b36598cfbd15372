"""The gunicorn server of the API: one worker, whose event loop reads requests and whose threads answer them."""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from http import HTTPStatus
from typing import Any

from flask import Flask
from gunicorn.app.base import BaseApplication
from gunicorn.http.parser import RequestParser
from gunicorn.http.wsgi import create
from gunicorn.workers.base import Worker as BaseWorker

from grass import __version__, process_memory
from grass.config import ClusterConfig, Secrets
from grass.errors import UnreachableError
from grass.model.event_kind import EventKind
from grass.store.api_store import ApiStore
from grass.store.connect import open_backend
from grass.store.keys import Keys
from grass.systemd import Notifier
from master.api.app import api_of, create_app
from master.api.front import Answered, Front, refusal
from master.api.outbox import LONGEST_UNSENT, Outbox
from master.api.refusals import RefusalLog

THREADS = 64
"""Requests that are answered at once."""
_STOP_SECONDS = 3
_BEAT_SECONDS = 1.0
WRITE_SECONDS = 30.0
"""How long the peer of a stream may read nothing."""
_DESCRIPTORS = 4096
"""File descriptors: more than the front's connections need."""
_PR_SET_PDEATHSIG = 1


class Server(BaseApplication):  # type: ignore[misc]
    """gunicorn's application object: its settings, and how a worker makes the Flask application."""

    def __init__(self, config: ClusterConfig) -> None:
        self._config = config
        super().__init__()

    def load_config(self) -> None:
        settings = {
            "bind": f"{self._config.master.api_host}:{self._config.master.api_port}",
            "workers": 1,
            "worker_class": Worker,
            "backlog": 2048,
            "graceful_timeout": _STOP_SECONDS,
            "worker_tmp_dir": self._config.runtime_dir,
            "proc_name": f"grass-api-{self._config.name}",
            "loglevel": "warning",
            "limit_request_line": 8190,
            "control_socket_disable": True,
            "post_fork": _die_with_the_arbiter,
        }
        for name, value in settings.items():
            if name in self.cfg.settings:  # older versions of gunicorn have no control socket
                self.cfg.set(name, value)

    def load(self) -> Flask:
        """Make the application. Called in the worker, because connections and threads do not survive a fork."""
        secrets = Secrets.load(self._config.home)
        store = ApiStore(open_backend(self._config, secrets, "api"), Keys(self._config.key_prefix))
        with suppress(UnreachableError):  # a server that starts while the store is away has no one to tell
            store.log_event(EventKind.API_STARTED, "", f"master-api-server: started, version {__version__}")
        return create_app(self._config, store)


class Worker(BaseWorker):  # type: ignore[misc]
    """Runs the front. gunicorn itself reports readiness to systemd; the worker reports that it is alive."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._notifier = Notifier()
        self._refusals = RefusalLog()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Event | None = None

    def run(self) -> None:
        _raise_descriptor_limit()
        process_memory.collect_rarely()
        with closing(asyncio.new_event_loop()) as self._loop:
            self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        threads = ThreadPoolExecutor(THREADS)
        front = Front(loop, threads, self._answer, self._refusals.write)
        for listener in self.sockets:
            front.listen(listener.sock)
        while self.alive and self.ppid == os.getppid():
            super().notify()
            self._notifier.beat()
            try:
                await asyncio.wait_for(self._ended.wait(), _BEAT_SECONDS)
            except asyncio.TimeoutError:
                continue
        self._end_waits()
        await front.stop(_STOP_SECONDS)
        threads.shutdown(wait=False, cancel_futures=True)

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Answer all waiting requests now; their clients retry with the next server."""
        self.alive = False
        self._end_waits()
        if self._loop is not None and self._ended is not None:
            self._loop.call_soon_threadsafe(self._ended.set)

    def _end_waits(self) -> None:
        if isinstance(self.wsgi, Flask):
            api_of(self.wsgi).feed.stop()

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
            return Answered(False, refusal(HTTPStatus.BAD_REQUEST))
        environ["wsgi.multithread"] = True
        if not self.alive:
            reply.force_close()
        pieces = self.wsgi(environ, reply.start_response)
        try:
            length = reply.response_length
            outbox.stream = length is None or length > LONGEST_UNSENT
            for piece in pieces:
                reply.write(piece)
            reply.close()
        except OSError:
            return Answered(False)  # the peer is gone, or does not read
        except Exception:
            self.log.exception("internal error: a reply was not completed")
            return Answered(False)
        finally:
            if hasattr(pieces, "close"):
                pieces.close()
        return Answered(not reply.should_close(), outbox.take_unsent())


def _raise_descriptor_limit() -> None:
    """Raise the limit of open files: the usual 1,024 is less than the front's connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _die_with_the_arbiter(server: Any, worker: Any) -> None:
    """End the worker when gunicorn's arbiter is killed, so that the port is free for the next arbiter."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
