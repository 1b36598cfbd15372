"""gunicorn for the node's application: one worker, whose event loop reads requests and whose threads answer them.

Started by ``python -m node.api``. A peer that is slow, or has not shown the token, costs a socket and no thread.
"""

from __future__ import annotations

import os
import signal

from flask import Flask
from gunicorn.app.base import BaseApplication

from grass.api.collector_link import key_for
from grass.api.daemon_log import start_node_log
from grass.config import Secrets
from grass.network_address import network_address
from grass.node_config import NodeHome
from grass.serving.front import Limits
from grass.serving.worker import FrontWorker, apply_settings, die_with_the_arbiter
from grass.supervision.address_watch import watch_address
from grass.tls import ServerContext
from grass.wire.membership_api import MOST_BODY
from node.api.app import create_app

THREADS = 160
"""Most threads; they start on demand. Each open terminal and each command of a launcher occupies one."""
HUNG_SECONDS = 30
"""The arbiter replaces a worker that is silent for so long."""


class Server(BaseApplication):  # type: ignore[misc]
    def __init__(self, config: NodeHome) -> None:
        self._config = config
        self._token = Secrets.load(config.home).node_token
        self._app = create_app(config, self._token)
        Worker.tls = ServerContext(config.tls_files) if config.tls else None
        super().__init__()

    def load_config(self) -> None:
        settings = {
            "bind": network_address(self._config.node.address, self._config.node.api_port),
            "workers": 1,
            "worker_class": Worker,
            "timeout": HUNG_SECONDS,
            "graceful_timeout": 1,
            "preload_app": True,  # the worker shares the arbiter's memory
            "worker_tmp_dir": self._config.runtime_dir,
            "proc_name": f"grass-node-api-{self._config.name}",
            "loglevel": "warning",
            "control_socket_disable": True,
            "post_fork": die_with_the_arbiter,
            "post_worker_init": self._start_log,
        }
        apply_settings(self.cfg, settings)

    def _start_log(self, worker: object) -> None:
        """Called in the worker: a thread does not survive the fork."""
        name, key = self._config.node.name, key_for(self._config, self._token)
        start_node_log(self._config, name, "node-api-server", key)
        arbiter = os.getppid()
        watch_address(self._config, lambda: os.kill(arbiter, signal.SIGTERM))

    def load(self) -> Flask:
        return self._app


class Worker(FrontWorker):
    limits = Limits(answered=THREADS, body=MOST_BODY)
