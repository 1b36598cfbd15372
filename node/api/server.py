"""gunicorn for the node's application: one worker with a few threads. Started by ``python -m node.api``."""

from __future__ import annotations

import ctypes
import signal
from typing import Any

from flask import Flask
from gunicorn.app.base import BaseApplication
from gunicorn.workers.gthread import ThreadWorker

from grass.config import ClusterConfig, Secrets
from grass.network_address import network_address
from grass.systemd import Notifier
from node.api.app import create_app

THREADS = 16
"""Most threads; they start on demand. Each open terminal occupies one."""
HUNG_SECONDS = 30
"""The arbiter replaces a worker that is silent for so long."""
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
    """A worker that sends systemd's sign of life: if the arbiter hangs as well, systemd restarts both."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._notifier = Notifier()

    def notify(self) -> None:
        super().notify()
        self._notifier.beat()


def _die_with_the_arbiter(server: Any, worker: Any) -> None:
    """End with the arbiter: when it is killed, the port must be free for the next one at once."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
