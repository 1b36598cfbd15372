"""Wakes waiting requests. One thread follows the store for all of them, so a waiting request costs no connection.

An event is committed together with the change that it reports, so a request that is woken reads the new state. Used by
this package.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from grass.errors import UnreachableError
from grass.model.event_kind import EventKind
from grass.store.api_store import ApiStore, News
from grass.store.keys import ENDS_KEPT
from grass.wire.job_record import JobRecord

PAUSE = 1.0
"""Seconds after which a client asks again, if too many requests wait already."""
log = logging.getLogger("master.api")

_AWAY = 0.1
"""Seconds between tries while the store does not answer."""
_FAILED = 1.0
"""Seconds until the thread goes on after news that it could not take."""

EVERYTHING = ""
_BEGINNINGS = frozenset({EventKind.JOB_SUBMITTED.value, EventKind.JOB_RUNNING.value})


class Feed:
    """Follows the store. ``poll``: seconds that one read waits for news. Safe for several threads."""

    def __init__(self, store: ApiStore, poll: float) -> None:
        self._store = store
        self._poll = poll
        self._lock = threading.Lock()
        self._waiters: dict[str, set[threading.Event]] = {}
        self._until_end: set[threading.Event] = set()
        """Flags of those who do not want to know that a job begins."""
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()
        self._ended: dict[str, JobRecord] = {}
        """Records of the jobs that ended last, by id, so that a request that was woken for one need not read it."""

    @property
    def closed(self) -> bool:
        return self._closed.is_set()

    @contextmanager
    def listen(self, job_name: str = EVERYTHING, *, beginnings: bool = True) -> Iterator[threading.Event]:
        """Yield a flag that is set at each event of the job (no name: at each event), and when the feed closes.

        ``beginnings``: also when the job is submitted or begins to run. Who only waits for its end would read its
        record for nothing, while its tasks are being started.

        Read the state after entering the context: no later event is missed.
        """
        flag = threading.Event()
        with self._lock:
            self._start()
            self._waiters.setdefault(job_name, set()).add(flag)
            if not beginnings:
                self._until_end.add(flag)
        try:
            yield flag
        finally:
            with self._lock:
                waiters = self._waiters[job_name]
                waiters.discard(flag)
                self._until_end.discard(flag)
                if not waiters:
                    del self._waiters[job_name]

    def ended(self, job_id: str) -> JobRecord | None:
        """Return the record of a job that ended recently, if it is in memory."""
        return self._ended.get(job_id)

    def stop(self) -> None:
        """End all waits now. Does not block."""
        self._closed.set()
        self._wake(None)

    def close(self) -> None:
        """End all waits, and the thread."""
        self.stop()
        if self._thread is not None:
            self._thread.join()

    def _start(self) -> None:
        """Start the thread on first use, because a thread does not survive the fork that makes the worker."""
        if self._thread is None:
            news = self._store.latest()
            self._thread = threading.Thread(target=self._follow, args=(news,), name="feed", daemon=True)
            self._thread.start()

    def _follow(self, news: News) -> None:
        while not self.closed:
            try:
                news = self._store.wait_news(news, self._poll)
            except UnreachableError:
                self._closed.wait(_AWAY)
                continue
            except Exception:  # every request that waits depends on this thread
                log.exception("internal error: news of the store cannot be read; waiting requests look for themselves")
                self._closed.wait(_FAILED)
                news = self._skipped(news)
                self._wake(None)
                continue
            self._ended.update(news.ended)
            while len(self._ended) > ENDS_KEPT:
                del self._ended[next(iter(self._ended))]
            if news.events:
                later = {event.record.job for event in news.events if event.record.kind not in _BEGINNINGS}
                self._wake({event.record.job or EVERYTHING for event in news.events}, later)

    def _skipped(self, news: News) -> News:
        """Return the end of the news, so that one that cannot be read is not read again."""
        try:
            return self._store.latest()
        except Exception:  # noqa: BLE001 (logged above at the next turn)
            return news

    def _wake(self, names: set[str] | None, later: set[str] | None = None) -> None:
        """Set the flags of jobs with these names (None: all). ``later``: jobs of which there is more than a beginning;
        None: all."""
        with self._lock:
            wanted = list(self._waiters) if names is None else [EVERYTHING, *names]
            for name in wanted:
                for flag in self._waiters.get(name, ()):
                    if later is None or name in later or flag not in self._until_end:
                        flag.set()
