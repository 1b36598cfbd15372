"""gunicorn around the application: one worker with threads, each of which can hold one waiting client."""

from __future__ import annotations

import ctypes
import signal
import socket
import struct
from typing import Any

from flask import Flask
from gunicorn.app.base import BaseApplication
from gunicorn.workers import gthread
from gunicorn.workers.gthread import ThreadWorker

from grass.config import ClusterConfig, Secrets
from grass.store.connect import open_backend
from grass.store.keys import Keys
from grass.systemd import Notifier
from master.api.app import api_of, create_app
from master.api.untyped import UntypedStore

THREADS = 64
_IDLE_SECONDS = 75
_SILENT_SECONDS = 3
"""How long a client may be silent in the middle of its request before it loses its thread …"""
_UNREAD_SECONDS = 30
"""… and how long it may leave its reply unread."""
_FIRST_BYTE_SECONDS = 0.1
"""How long a thread waits for a new connection to say anything; then the poller does, at no cost."""
_DEFER = getattr(gthread, "_DEFER", None)
"""What a thread answers to give a connection back to the poller; older gunicorns have only threads to wait."""
_PR_SET_PDEATHSIG = 1


class Server(BaseApplication):  # type: ignore[misc]
    def __init__(self, config: ClusterConfig) -> None:
        self._config = config
        super().__init__()

    def load_config(self) -> None:
        settings = {
            "bind": f"{self._config.master.api_host}:{self._config.master.api_port}",
            "workers": 1,
            "worker_class": Worker,
            "threads": THREADS,
            "worker_connections": 1000,
            "keepalive": _IDLE_SECONDS,
            "graceful_timeout": 3,
            "worker_tmp_dir": self._config.runtime_dir,
            "proc_name": f"grass-api-{self._config.name}",
            "loglevel": "warning",
            "limit_request_line": 8190,
            "control_socket_disable": True,
            "post_fork": _die_with_the_arbiter,
        }
        for name, value in settings.items():
            if name in self.cfg.settings:  # control sockets are newer than the oldest gunicorn that will do
                self.cfg.set(name, value)

    def load(self) -> Flask:
        """In the worker: connections and threads do not survive a fork."""
        secrets = Secrets.load(self._config.home)
        store = UntypedStore(open_backend(self._config, secrets, "api"), Keys(self._config.key_prefix))
        return create_app(self._config, store)


class Worker(ThreadWorker):  # type: ignore[misc]
    """gunicorn itself tells systemd when it is ready; that it is alive only the worker can say."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._notifier = Notifier()

    def notify(self) -> None:
        super().notify()
        self._notifier.beat()

    def handle(self, conn: Any) -> Any:
        """The kernel's timeouts, because gunicorn sets and resets Python's."""
        if _DEFER is not None and not conn.initialized and not conn.wait_for_data(_FIRST_BYTE_SECONDS):
            return _DEFER
        conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", _SILENT_SECONDS, 0))
        conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _UNREAD_SECONDS, 0))
        conn.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * _UNREAD_SECONDS)
        return super().handle(conn)

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Those who wait get their answer now, and come back to the next server."""
        super().handle_exit(sig, frame)
        if isinstance(self.wsgi, Flask):
            api_of(self.wsgi).feed.stop()


def _die_with_the_arbiter(server: Any, worker: Any) -> None:
    """If the arbiter is killed the port must be free for the next one at once."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
