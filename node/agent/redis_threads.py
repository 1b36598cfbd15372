"""The two threads that talk to redis, so that the node-agent's loop never waits for it.

``Changes`` reads desired-state changes, ``Reports`` sends reports. Neither decides anything. Used by ``loop``.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from grass.backoff import Backoff
from grass.errors import NotAllowedError, UndecodableError, UnreachableError
from grass.store.node_store import ChangesGapError, Desired, NodeStore, Revoked
from grass.supervision.daemon_ends import noted_by_systemd
from grass.system import clock
from grass.system.atomic_file import replace_file
from grass.wire.daemon_end import DaemonEnds
from grass.wire.desired import DesiredChange
from grass.wire.heartbeat import Heartbeat
from grass.wire.hello import Hello
from grass.wire.offer_report import OfferReport
from grass.wire.reports import Report
from grass.wire.task_events import TaskEvent, TaskEvents

_FIRST_RETRY = 0.05
_LONGEST_RETRY = 1.0
_WAIT = 2.0
"""Seconds that one read waits for changes; well below the redis client's own timeout."""
_UNREADABLE_AGAIN = 10.0
"""Seconds until undecodable state is read again."""
_ENDS_AT_ONCE = 20
"""Most ends of daemons in one report."""
HEARD = "master-heard"
_AT_ONCE = 2000
"""Most events in one report."""

log = logging.getLogger(__name__)


class Changes:
    """Reads the desired state once, then its changes. Calls ``apply`` with each, in its own thread."""

    def __init__(
        self,
        store: NodeStore,
        apply: Callable[[Sequence[Desired | DesiredChange | Revoked]], None],
        unreadable: Callable[[str], None],
        again: float = _UNREADABLE_AGAIN,
    ) -> None:
        """``unreadable`` is called with the reason when this version cannot decode or apply what the master wrote, and
        with "" when it can again. Until then nothing changes on this node; the state is read again after ``again``
        seconds."""
        self._store = store
        self._apply = apply
        self._unreadable = unreadable
        self._again = again
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="changes", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop without waiting for a read that is in progress."""
        self._stopping.set()

    def _run(self) -> None:
        retry = _Retry("redis does not answer; desired-state changes wait", self._stopping)
        cursor: str | None = None
        while not self._stopping.is_set():
            try:
                if cursor is None:
                    desired = self._store.desired()
                    self._apply([desired])
                    self._unreadable("")
                    cursor = desired.cursor
                cursor, changes = self._store.changes(cursor, _WAIT)
                if changes:
                    self._apply(changes)
            except NotAllowedError:
                raise  # redis refuses this node: the agent ends
            except UnreachableError as error:
                retry.wait(error)
                continue
            except ChangesGapError as gap:
                log.warning("%s; reading the whole desired state again", gap)
                cursor = None
                continue
            except UndecodableError as error:
                log.error(
                    "cannot decode the desired state of this node (%s); nothing changes here until it is readable",
                    error,
                )
                self._put_off(str(error))
                cursor = None
                continue
            except Exception as error:
                log.exception("cannot apply the desired state of this node; running tasks go on, nothing changes here")
                self._put_off(f"internal error: {type(error).__name__}: {error}")
                cursor = None
                continue
            retry.reset()

    def _put_off(self, problem: str) -> None:
        self._unreadable(problem)
        self._stopping.wait(self._again)


class Reports:
    """Sends reports in order, and keeps them in memory while redis is away.

    Events that accumulate go into one report. Only the newest heartbeat, and the newest offer, are sent. With them
    go the ends of daemons that systemd noted in ``home``, the cluster's folder on this node. ``heard``: a file that
    says when the master last took something, for `grass cluster failover`; by the clock since boot, where a reboot
    removes it.
    """

    def __init__(self, store: NodeStore, home: Path, heard: Path | None = None) -> None:
        self._store = store
        self._home = home
        self._heard = heard
        self._changed = threading.Condition()
        self._hello: Hello | None = None
        self._events: list[TaskEvent] = []
        self._heartbeat: Heartbeat | None = None
        self._offer: OfferReport | None = None
        self._sending = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reports", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def hello(self, hello: Hello) -> None:
        """Send a hello, ahead of everything that is not sent yet."""
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

    def offer(self, offer: OfferReport) -> None:
        with self._changed:
            self._offer = offer
            self._changed.notify()

    def all_sent(self) -> bool:
        with self._changed:
            return not self._pending() and not self._sending

    def stop(self, seconds: float) -> bool:
        """Wait up to ``seconds`` for unsent reports, then end the thread. Return whether all reports were sent."""
        with self._changed:
            empty = self._changed.wait_for(lambda: not self._pending() and not self._sending, seconds)
            self._stopping.set()
            self._changed.notify_all()
        self._thread.join()
        return empty

    def _pending(self) -> bool:
        return bool(self._hello or self._events or self._heartbeat or self._offer)

    def _run(self) -> None:
        retry = _Retry("redis does not answer; reports are kept on this node", self._stopping)
        while (batch := self._next()) is not None:
            ends = dict(islice(noted_by_systemd(self._home), _ENDS_AT_ONCE))
            batch += [DaemonEnds(tuple(ends.values()))] if ends else []
            while True:
                try:
                    self._store.report(batch)
                    break
                except UnreachableError as error:
                    retry.wait(error)
                    if self._stopping.is_set():
                        return
            retry.reset()
            self._note_heard()
            _remove(ends)
            with self._changed:
                self._sending = False
                self._changed.notify_all()

    def _note_heard(self) -> None:
        if self._heard is not None:
            with suppress(OSError):
                replace_file(self._heard, f"{clock.steady()}\n")

    def _next(self) -> list[Report] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._pending() or self._stopping.is_set())
            if not self._pending():
                return None
            batch: list[Report] = [self._hello] if self._hello else []
            if self._events:
                batch.append(TaskEvents(tuple(self._events[:_AT_ONCE])))
                del self._events[:_AT_ONCE]
            batch += [each for each in (self._offer, self._heartbeat) if each]
            self._hello = self._heartbeat = self._offer = None
            self._sending = True
            return batch


def _remove(files: Iterable[Path]) -> None:
    for path in files:
        with suppress(OSError):
            path.unlink()


class _Retry:
    """Growing waits while redis is away, with one line in the log when that begins and one when it ends."""

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
            log.info("redis answers again after %.1f s", clock.steady() - self._since)
        self._since = None
        self._backoff.reset()
