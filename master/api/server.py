"""The gunicorn server of the API: one worker, whose event loop reads requests and whose threads answer them.

Used by ``__main__``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from flask import Flask
from gunicorn.app.base import BaseApplication

from grass import __version__
from grass.api.daemon_log import start_master_log
from grass.api.sealing import MAX_REQUEST
from grass.config import ClusterConfig, Secrets
from grass.errors import UnreachableError
from grass.model.event_kind import EventKind
from grass.network_address import network_address
from grass.serving.front import Limits
from grass.serving.worker import STOP_SECONDS, FrontWorker, apply_settings, die_with_the_arbiter
from grass.store.api_store import ApiStore
from grass.store.connect import open_backend
from grass.store.keys import Keys
from grass.store.redis_link import RefusedByStoreError
from grass.supervision.moved import moved_to
from master.api import metrics
from master.api.app import api_of, create_app
from master.api.daemon_ends import watch_daemon_ends
from master.api.fenced import signpost, watch_fence

LIMITS = Limits(body=MAX_REQUEST)


class Server(BaseApplication):  # type: ignore[misc]
    """gunicorn's application object: its settings, and how a worker makes the Flask application."""

    def __init__(self, config: ClusterConfig) -> None:
        self._config = config
        super().__init__()

    def load_config(self) -> None:
        settings = {
            "bind": network_address(self._config.master.api_host, self._config.master.api_port),
            "workers": 1,
            "worker_class": Worker,
            "backlog": 2048,
            "graceful_timeout": STOP_SECONDS,
            "worker_tmp_dir": self._config.runtime_dir,
            "proc_name": f"grass-api-{self._config.name}",
            "loglevel": "warning",
            "limit_request_line": 8190,
            "control_socket_disable": True,
            "post_fork": die_with_the_arbiter,
        }
        apply_settings(self.cfg, settings)

    def load(self) -> Callable[..., Any]:
        """Make the application. Called in the worker, because connections and threads do not survive a fork."""
        if notice := moved_to(Path(self._config.home)):
            return signpost(notice)
        start_master_log(self._config, "master-api-server")
        secrets = Secrets.load(self._config.home)
        store = ApiStore(open_backend(self._config, secrets, "api"), Keys(self._config.key_prefix))
        with suppress(UnreachableError, RefusedByStoreError):  # the store is away, or another machine is the master
            store.log_event(EventKind.API_STARTED, "", f"master-api-server: started, version {__version__}")
        watch_daemon_ends(Path(self._config.home), store)
        app = create_app(self._config, store)
        api_of(app).desk.start()
        watch_fence(app, api_of(app))
        tls = metrics.tls_server(api_of(app))
        if tls is not None:
            tls.start()
        return app


class Worker(FrontWorker):
    limits = LIMITS

    def end_waits(self) -> None:
        if isinstance(self.wsgi, Flask):
            api_of(self.wsgi).feed.stop()
