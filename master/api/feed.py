"""Wakes waiting requests. Two threads follow the store for all of them, so a waiting request costs no connection.

One follows the ends of jobs, and one all events, as long as somebody wants to know more than an end. Every start makes
events. Nobody reads them then who only waits for a job, so that the job is not delayed by who waits for it.

An event or an end is committed together with the change that it reports, so a request that is woken reads the new
state. Used by this package.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from grass.errors import UnreachableError
from grass.store.api_store import ApiStore
from grass.store.keys import ENDS_KEPT
from grass.wire.job_record import JobRecord

PAUSE = 1.0
"""Seconds after which a client asks again, if too many requests wait already."""
log = logging.getLogger("master.api")

_AWAY = 0.1
"""Seconds between tries while the store does not answer."""
_FAILED = 1.0
"""Seconds until a thread goes on after news that it could not take."""

EVERYTHING = ""


class Feed:
    """Follows the store. ``poll``: seconds that one read waits for news. Safe for several threads."""

    def __init__(self, store: ApiStore, poll: float) -> None:
        self._store = store
        self._poll = poll
        self._closed = threading.Event()
        self._ends = _Follower(self._closed, store.last_end, self._read_ends, name="ends", rests=False)
        self._events = _Follower(self._closed, store.last_event, self._read_events, name="events", rests=True)
        self._ended: dict[str, JobRecord] = {}
        """Records of the jobs that ended last, by id, so that a request that was woken for one need not read it."""

    @property
    def closed(self) -> bool:
        return self._closed.is_set()

    @property
    def listening(self) -> int:
        """How many listen."""
        return self._ends.listening + self._events.listening

    @property
    def reads_events(self) -> bool:
        """Return whether somebody listens to events, or did a moment ago."""
        return self._events.last is not None

    @contextmanager
    def listen(self, job_name: str = EVERYTHING, *, until_end: bool = False) -> Iterator[threading.Event]:
        """Yield a flag that is set at each event of the job (no name: at each event), and when the feed closes.

        ``until_end``: only when a job of this name ends.

        Read the state after entering the context: no later event is missed.
        """
        with (self._ends if until_end else self._events).listen(job_name) as flag:
            yield flag

    def last_end(self) -> str | None:
        """Return the last end of a job that was read; None: none is read now. Who listens afterwards, and finds the
        same, has missed none."""
        return self._ends.last

    def ended_job(self, job_id: str) -> JobRecord | None:
        """Return the record of a job that ended recently, if it is in memory."""
        return self._ended.get(job_id)

    def stop(self) -> None:
        """End all waits now. Does not block."""
        self._closed.set()
        self._ends.wake(None)
        self._events.wake(None)

    def close(self) -> None:
        """End all waits, and the threads."""
        self.stop()
        self._ends.join()
        self._events.join()

    def _read_ends(self, last: str) -> tuple[str, set[str]]:
        news = self._store.wait_ends(last, self._poll)
        self._ended.update(news.records)
        while len(self._ended) > ENDS_KEPT:
            del self._ended[next(iter(self._ended))]
        return news.last, {record.name for record in news.records.values()}

    def _read_events(self, last: str) -> tuple[str, set[str]]:
        news = self._store.wait_events(last, self._poll)
        return news.last, {event.record.job or EVERYTHING for event in news.events}


class _Follower:
    """A thread that follows a stream, and those who listen to it.

    ``newest`` returns the last entry of the stream. ``read`` waits for entries after the given one, and returns the
    last of these and the names of their jobs. ``rests``: the thread reads nothing while nobody listens.
    """

    def __init__(
        self,
        closed: threading.Event,
        newest: Callable[[], str],
        read: Callable[[str], tuple[str, set[str]]],
        *,
        name: str,
        rests: bool,
    ) -> None:
        self._closed = closed
        self._newest = newest
        self._read = read
        self._name = name
        self._rests = rests
        self._changed = threading.Condition()
        """Holds the lock of all that follows; notified when a thread that rests is to read again."""
        self._listeners: dict[str, set[threading.Event]] = {}
        self._thread: threading.Thread | None = None
        self._last: str | None = None
        """The entry from which the thread reads. None: it rests."""

    @property
    def listening(self) -> int:
        with self._changed:
            return sum(len(flags) for flags in self._listeners.values())

    @property
    def last(self) -> str | None:
        with self._changed:
            return self._last

    @contextmanager
    def listen(self, job_name: str) -> Iterator[threading.Event]:
        flag = threading.Event()
        with self._changed:
            self._follow_from_now()
            self._listeners.setdefault(job_name, set()).add(flag)
        try:
            yield flag
        finally:
            with self._changed:
                listeners = self._listeners[job_name]
                listeners.discard(flag)
                if not listeners:
                    del self._listeners[job_name]

    def wake(self, names: set[str] | None) -> None:
        """Set the flags of jobs with these names (None: all), and of those who listen to everything."""
        with self._changed:
            for name in list(self._listeners) if names is None else {EVERYTHING, *names}:
                for flag in self._listeners.get(name, ()):
                    flag.set()
            if names is None:
                self._changed.notify()

    def join(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def _follow_from_now(self) -> None:
        """Let the thread read. Start it on first use, because a thread does not survive the fork that makes the
        worker."""
        if self._last is None:
            self._last = self._newest()
            self._changed.notify()
        if self._thread is None:
            self._thread = threading.Thread(target=self._follow, name=self._name, daemon=True)
            self._thread.start()

    def _follow(self) -> None:
        while (last := self._next()) is not None:
            try:
                last, names = self._read(last)
            except UnreachableError:
                self._closed.wait(_AWAY)
                continue
            except Exception:  # every request that waits depends on this thread
                log.exception("internal error: news of the store cannot be read; waiting requests look for themselves")
                self._closed.wait(_FAILED)
                last, names = self._skipped(last), None
            with self._changed:
                self._last = last
            if names is None or names:
                self.wake(names)

    def _next(self) -> str | None:
        """Return where to read, once somebody listens; None: the feed is closed."""
        with self._changed:
            if self._rests and not self._listeners:
                self._last = None
            self._changed.wait_for(lambda: self._last is not None or self._closed.is_set())
            return None if self._closed.is_set() else self._last

    def _skipped(self, last: str) -> str:
        """Return the end of the stream, so that news that cannot be read are not read again."""
        try:
            return self._newest()
        except Exception:  # noqa: BLE001 (logged above at the next turn)
            return last
