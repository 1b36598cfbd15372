"""The two threads that talk to redis, so that the agent's loop never waits for it: orders in, reports out."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any

from grass import clock
from grass.backoff import Backoff
from grass.errors import UnreachableError
from grass.store.node_store import ChangesGapError, Desired, NodeStore
from grass.wire.reports import Report
from node.agent.untyped import change_view, desired_view, typed

_FIRST_RETRY = 0.05
_LONGEST_RETRY = 1.0
_WAIT = 2.0
"""Seconds that one read waits for orders; well below the client's own timeout, after which redis counts as away."""
_AT_ONCE = 2000
"""Most events in one report."""

log = logging.getLogger(__name__)

Body = dict[str, Any]


class Orders:
    """Reads what is desired once, then what changes. ``obey`` is called with each, in the thread that read it."""

    def __init__(self, store: NodeStore, obey: Callable[[Iterable[Desired | Body]], None]) -> None:
        self._store = store
        self._obey = obey
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="orders", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Does not wait for a read that is under way."""
        self._stopping.set()

    def _run(self) -> None:
        retry = _Retry("redis does not answer, orders wait", self._stopping)
        cursor: str | None = None
        while not self._stopping.is_set():
            try:
                if cursor is None:
                    desired = self._store.desired()
                    cursor = desired.cursor
                    self._obey([desired_view(desired)])
                cursor, orders = self._store.changes(cursor, _WAIT)
            except UnreachableError as error:
                retry.wait(error)
                continue
            except ChangesGapError as gap:
                log.warning("%s; reading all that is desired again", gap)
                cursor = None
                continue
            retry.reset()
            if orders:
                self._obey([change_view(order) for order in orders])


class Reports:
    """Sends what it is given, in order, until it is durable; keeps it in memory while redis is away.

    Events that pile up go in one report; of heartbeats only the newest is worth sending.
    """

    def __init__(self, store: NodeStore) -> None:
        self._store = store
        self._changed = threading.Condition()
        self._hello: Body | None = None
        self._events: list[Body] = []
        self._heartbeat: Body | None = None
        self._sending = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reports", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def hello(self, body: Body) -> None:
        """Goes before everything else that has not been sent."""
        with self._changed:
            self._hello = body
            self._changed.notify()

    def events(self, events: list[Body]) -> None:
        with self._changed:
            self._events += events
            self._changed.notify()

    def heartbeat(self, body: Body) -> None:
        with self._changed:
            self._heartbeat = body
            self._changed.notify()

    def stop(self, seconds: float) -> bool:
        """Ends the thread; waits up to ``seconds`` for what is left. Returns whether all of it was sent."""
        with self._changed:
            empty = self._changed.wait_for(lambda: not self._pending() and not self._sending, seconds)
            self._stopping.set()
            self._changed.notify_all()
        self._thread.join()
        return empty

    def _pending(self) -> bool:
        return bool(self._hello or self._events or self._heartbeat)

    def _run(self) -> None:
        retry = _Retry("redis does not answer, reports are kept", self._stopping)
        while (batch := self._next()) is not None:
            while True:
                try:
                    self._store.report(batch)
                    break
                except UnreachableError as error:
                    retry.wait(error)
                    if self._stopping.is_set():
                        return
            retry.reset()
            with self._changed:
                self._sending = False
                self._changed.notify_all()

    def _next(self) -> list[Report] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._pending() or self._stopping.is_set())
            if not self._pending():
                return None
            batch: list[Report] = [typed("hello", self._hello)] if self._hello else []
            if self._events:
                batch.append(typed("tasks", {"events": self._events[:_AT_ONCE]}))
                del self._events[:_AT_ONCE]
            if self._heartbeat:
                batch.append(typed("heartbeat", self._heartbeat))
            self._hello = self._heartbeat = None
            self._sending = True
            return batch


class _Retry:
    """Growing waits while redis is away, with one line in the log when it goes and one when it is back."""

    def __init__(self, message: str, stopping: threading.Event) -> None:
        self._message = message
        self._stopping = stopping
        self._backoff = Backoff(_FIRST_RETRY, _LONGEST_RETRY)
        self._since: float | None = None

    def wait(self, error: UnreachableError) -> None:
        if self._since is None:
            self._since = clock.steady()
            log.warning("%s: %s", self._message, error)
        self._stopping.wait(self._backoff.next())

    def reset(self) -> None:
        if self._since is not None:
            log.info("redis is back after %.1f s", clock.steady() - self._since)
        self._since = None
        self._backoff.reset()
