"""The two threads that talk to redis, so that the agent's loop never waits for it: changes in, reports out."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from grass import clock
from grass.backoff import Backoff
from grass.errors import UndecodableError, UnreachableError
from grass.store.node_store import ChangesGapError, Desired, NodeStore
from grass.wire.desired import DesiredChange
from grass.wire.heartbeat import Heartbeat
from grass.wire.hello import Hello
from grass.wire.reports import Report
from grass.wire.task_events import TaskEvent, TaskEvents

_FIRST_RETRY = 0.05
_LONGEST_RETRY = 1.0
_WAIT = 2.0
"""Seconds that one read waits for changes; well below the client's own timeout, after which redis counts as away."""
_UNREADABLE_AGAIN = 10.0
"""Seconds until what could not be read is read again."""
_AT_ONCE = 2000
"""Most events in one report."""

log = logging.getLogger(__name__)


class Changes:
    """Reads what is desired once, then what changes. ``obey`` is called with each, in the thread that read it."""

    def __init__(
        self,
        store: NodeStore,
        apply: Callable[[Sequence[Desired | DesiredChange]], None],
        unreadable: Callable[[str], None],
    ) -> None:
        """``unreadable`` is called with the reason when this version cannot read what its master wrote; empty: it can
        again. Until then nothing changes here."""
        self._store = store
        self._apply = apply
        self._unreadable = unreadable
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="changes", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Does not wait for a read that is under way."""
        self._stopping.set()

    def _run(self) -> None:
        retry = _Retry("redis does not answer, changes wait", self._stopping)
        cursor: str | None = None
        while not self._stopping.is_set():
            try:
                if cursor is None:
                    desired = self._store.desired()
                    cursor = desired.cursor
                    self._unreadable("")
                    self._apply([desired])
                cursor, changes = self._store.changes(cursor, _WAIT)
            except UnreachableError as error:
                retry.wait(error)
                continue
            except ChangesGapError as gap:
                log.warning("%s; reading all that is desired again", gap)
                cursor = None
                continue
            except UndecodableError as error:
                log.error("cannot read what is desired here, so nothing changes: %s", error)
                self._unreadable(str(error))
                cursor = None
                self._stopping.wait(_UNREADABLE_AGAIN)
                continue
            retry.reset()
            if changes:
                self._apply(changes)


class Reports:
    """Sends what it is given, in order, until it is durable; keeps it in memory while redis is away.

    Events that pile up go in one report; of heartbeats only the newest is worth sending.
    """

    def __init__(self, store: NodeStore) -> None:
        self._store = store
        self._changed = threading.Condition()
        self._hello: Hello | None = None
        self._events: list[TaskEvent] = []
        self._heartbeat: Heartbeat | None = None
        self._sending = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reports", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def hello(self, hello: Hello) -> None:
        """Goes before everything else that has not been sent."""
        with self._changed:
            self._hello = hello
            self._changed.notify()

    def events(self, events: list[TaskEvent]) -> None:
        with self._changed:
            self._events += events
            self._changed.notify()

    def heartbeat(self, heartbeat: Heartbeat) -> None:
        with self._changed:
            self._heartbeat = heartbeat
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
            batch: list[Report] = [self._hello] if self._hello else []
            if self._events:
                batch.append(TaskEvents(tuple(self._events[:_AT_ONCE])))
                del self._events[:_AT_ONCE]
            if self._heartbeat:
                batch.append(self._heartbeat)
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
