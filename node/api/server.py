"""gunicorn for the node's application: one worker with a few threads. Started by ``python -m node.api``."""

from __future__ import annotations

import ctypes
import signal
import socket
from contextlib import suppress
from typing import Any

from flask import Flask
from gunicorn.app.base import BaseApplication
from gunicorn.workers.gthread import ThreadWorker

from grass import clock
from grass.config import ClusterConfig, Secrets
from grass.network_address import network_address
from grass.systemd import Notifier
from node.api.app import create_app

THREADS = 160
"""Most threads; they start on demand. Each open terminal and each command of a launcher occupies one."""
HUNG_SECONDS = 30
"""The arbiter replaces a worker that is silent for so long."""
HEAD_SECONDS = 5.0
"""Limit for the head of a request; no thread waits longer for a peer that has not shown the token."""
_PR_SET_PDEATHSIG = 1


class Server(BaseApplication):  # type: ignore[misc]
    def __init__(self, config: ClusterConfig) -> None:
        self._config = config
        self._app = create_app(config, Secrets.load(config.home).node_token)
        super().__init__()

    def load_config(self) -> None:
        settings = {
            "bind": network_address(self._config.node.address, self._config.node.api_port),
            "workers": 1,
            "worker_class": Worker,
            "threads": THREADS,
            "timeout": HUNG_SECONDS,
            "graceful_timeout": 1,
            "preload_app": True,  # the worker shares the arbiter's memory
            "worker_tmp_dir": self._config.runtime_dir,
            "proc_name": f"grass-node-api-{self._config.name}",
            "loglevel": "warning",
            "control_socket_disable": True,
            "post_fork": _die_with_the_arbiter,
        }
        for name, value in settings.items():
            if name in self.cfg.settings:
                self.cfg.set(name, value)

    def load(self) -> Flask:
        return self._app


class Worker(ThreadWorker):  # type: ignore[misc]
    """A worker that sends systemd's sign of life: if the arbiter hangs as well, systemd restarts both.

    A peer that is slow to send the head of a request releases its thread after ``HEAD_SECONDS``.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._notifier = Notifier()
        self._reading: dict[Any, float] = {}
        """Connection → steady time at which a thread began to read the head of its request."""

    def notify(self) -> None:
        """gunicorn's main thread calls this once a second."""
        super().notify()
        self._notifier.beat()
        for conn, since in list(self._reading.items()):
            if clock.steady() - since > HEAD_SECONDS:
                with suppress(OSError):
                    conn.sock.shutdown(socket.SHUT_RDWR)  # its thread wakes up

    def handle(self, conn: Any) -> Any:
        self._reading[conn] = clock.steady()
        try:
            return super().handle(conn)
        finally:
            self._reading.pop(conn, None)

    def handle_request(self, req: Any, conn: Any) -> Any:
        self._reading.pop(conn, None)
        return super().handle_request(req, conn)


def _die_with_the_arbiter(server: Any, worker: Any) -> None:
    """End with the arbiter: when it is killed, the port must be free for the next one at once."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
