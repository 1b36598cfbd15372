"""Copies the output of containers from the engine's logs into the files of their attempts. Used by ``ends``."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

from node.runtime.attempts import Folders
from node.runtime.docker.container import Container
from node.runtime.docker.engine import Engine
from node.runtime.docker.event_stream import EventStream
from node.runtime.docker.streams import Log
from node.runtime.reactor import Reactor

_DISK_RETRY = 1.0

log = logging.getLogger(__name__)


class Output:
    """Copies the output of all containers.

    ``over`` is called when the log of a container has ended or its connection broke.
    """

    def __init__(
        self, engine: Engine, folders: Folders, reactor: Reactor, events: EventStream, over: Callable[[Container], None]
    ) -> None:
        self._engine = engine
        self._folders = folders
        self._reactor = reactor
        self._events = events
        self._over = over

    def open(self, attempt: Container) -> None:
        """Start or resume copying. No effect while the engine is away or if copying is already active."""
        if not attempt.runs or not self._events.up or (attempt.log is not None and attempt.log.is_open):
            return
        try:
            if attempt.log is None:
                attempt.log = self._new_log(attempt)
            else:
                attempt.log.reopen(follow=attempt.over is None)
        except OSError as error:
            self._later(attempt, error)
            return
        self._reactor.watch(attempt.log.fileno(), lambda: self._on_log(attempt))

    def pause(self, attempt: Container) -> None:
        if attempt.log is not None and attempt.log.is_open:
            self._reactor.unwatch(attempt.log.fileno())
            attempt.log.pause()

    def close(self, attempt: Container) -> None:
        self.pause(attempt)
        if attempt.log is not None:
            attempt.log.close()
            attempt.log = None

    def _new_log(self, attempt: Container) -> Log:
        assert attempt.id is not None
        paths = {name: self._folders.path(attempt.key, name) for name in ("stdout", "stderr")}
        os.makedirs(self._folders.job(attempt.key), 0o700, exist_ok=True)  # noqa: PTH103
        return Log(self._engine.socket, attempt.id, paths)

    def _on_log(self, attempt: Container) -> None:
        assert attempt.log is not None
        try:
            if attempt.log.pump():
                return
        except OSError as error:
            self.close(attempt)
            self._later(attempt, error)
            return
        self.pause(attempt)
        self._over(attempt)

    def _later(self, attempt: Container, error: OSError) -> None:
        log.warning("%s: its output cannot be copied (%s); trying again", attempt.key, error)
        self._reactor.after(_DISK_RETRY, lambda: self.open(attempt))
