"""Follows the change feed once for all open tabs. A tab gets the whole state first, then what is new for it.

One thread per mirror reads from the cluster. It survives a cluster that goes away, and informs the tabs. Used by
``app``.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from grass.api.client import Client
from grass.dashboard.connection import Connection
from grass.dashboard.merged_feed import MergedFeed, Message
from grass.errors import GrassError, NotAllowedError, NotFoundError
from grass.system import clock

if TYPE_CHECKING:
    from grass.wire.status_views import StatusView

log = logging.getLogger(__name__)
RETRY = 1.0
"""Seconds until the next try while the cluster does not answer."""


class Mailbox:
    """What is new for one tab."""

    def __init__(self, changed: threading.Condition, feed: MergedFeed, quiet: Callable[[], float]) -> None:
        self._changed = changed
        self._news = feed
        self.quiet = quiet
        """Returns for how many seconds the cluster has said nothing, not even the time."""
        self.closed = False

    def wait_for_news(self, seconds: float) -> Message | None:
        """Wait for news and return all of it; None if there was none."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._news) or self.closed, seconds)
            return self._news.drain() if self._news else None


class Mirror:
    """The last known state of the cluster or of one job, and the tabs that follow it.

    ``job``: mirror this job and its tasks instead of the cluster.
    """

    def __init__(self, connection: Connection, job: str | None = None) -> None:
        self._connection = connection
        self._job = job
        self._changed = threading.Condition()
        self._state = MergedFeed()
        self._feeds: dict[Mailbox, MergedFeed] = {}
        self._closed = threading.Event()
        self._up, self._message = False, "connecting"
        self._heard = clock.steady()
        self._anew: float | None = None
        """When the cluster was found to be another one of the same name."""
        self._told: tuple[float, float] | None = None
        """The time of the newest piece, and the steady clock when it came."""
        self._say("link", self._link(False, self._message))
        self._thread = threading.Thread(target=self._follow, name=f"mirror {job or 'cluster'}", daemon=True)
        self._thread.start()

    @contextmanager
    def open(self) -> Iterator[Mailbox]:
        """Yield a mailbox for one tab. Its first news is the whole state."""
        with self._changed:
            feed = self._state.opened(self._now())
            mailbox = Mailbox(self._changed, feed, lambda: clock.steady() - self._heard)
            self._feeds[mailbox] = feed
            mailbox.closed = self._closed.is_set()
        try:
            yield mailbox
        finally:
            with self._changed:
                del self._feeds[mailbox]

    @property
    def idle(self) -> bool:
        return not self._feeds

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def close(self) -> None:
        """Wake all tabs, and end the thread with the next piece, which comes about every second."""
        self._closed.set()
        with self._changed:
            for mailbox in self._feeds:
                mailbox.closed = True
            self._changed.notify_all()

    def join(self) -> None:
        """Wait for the end of the thread, after ``close``."""
        self._thread.join()

    def _merge(self, *changes: Callable[[MergedFeed], None]) -> None:
        with self._changed:
            for feed in (self._state, *self._feeds.values()):
                for change in changes:
                    change(feed)
            self._changed.notify_all()

    def _say(self, name: str, what: Message) -> None:
        self._merge(partial(MergedFeed.say, name=name, what=what))

    def _link(self, up: bool, message: str) -> Message:
        return {"up": up, "message": message, "since": self._now(), "anew": self._anew}

    def _now(self) -> float:
        """Return the master's time, as pages show it; before the first piece, that of this machine."""
        if self._told is None:
            return clock.wall()
        time, at = self._told
        return time + clock.steady() - at

    def _follow(self) -> None:
        with closing(self._connection):
            while not self._closed.is_set():
                try:
                    self._read()
                    return
                except NotFoundError as error:
                    gone = partial(MergedFeed.say, name="link", what=self._link(True, str(error)))
                    self._merge(MergedFeed.forget, gone)
                    return
                except NotAllowedError as error:
                    self._lost(f"{error}; log in again (`grass login`), and this page goes on", refused=True)
                except GrassError as error:
                    self._lost(str(error))
                except Exception as error:
                    if self._lost(
                        f"internal error ({type(error).__name__}); its traceback is where the dashboard runs"
                    ):
                        log.exception("dashboard: internal error; the page reads the state of the cluster again")
                self._closed.wait(RETRY)

    def _lost(self, message: str, *, refused: bool = False) -> bool:
        """Tell the tabs why nothing comes. Return whether that is new."""
        if not self._up and self._message == message:
            return False
        self._up, self._message = False, message
        self._say("link", {**self._link(False, message), "refused": refused})
        return True

    def _read(self) -> None:
        """Return once the mirror is closed."""
        client = self._connection.client()
        if self._connection.recreated():
            self._told, self._anew = None, clock.wall()
        if self._job is None:
            self._say("me", _who(client.status()))
        with closing(client.changes(self._job)) as pieces:
            for piece in pieces:
                if self._closed.is_set():
                    return
                self._heard = clock.steady()
                self._told = piece.time, self._heard
                changes = [partial(MergedFeed.add, piece=piece)]
                if not self._up:
                    self._up = True
                    changes.append(partial(MergedFeed.say, name="link", what=self._link(True, "")))
                self._merge(*changes)


def _who(status: StatusView) -> Message:
    return {"cluster": status.cluster, "mode": status.mode, "user": status.user, "role": status.role}


class Mirrors:
    """The mirror of the cluster, from the beginning, and one of each job that a tab watches."""

    def __init__(self, connect: Callable[[], Client]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._cluster = Mirror(Connection(connect))
        self._jobs: dict[str, Mirror] = {}
        self._closed = False
        self._closing: list[Mirror] = []
        """Mirrors of jobs that nobody watches any more; their threads end soon."""

    @contextmanager
    def open(self, job: str | None) -> Iterator[Mailbox]:
        """Yield a mailbox of the cluster, or of a job, whose mirror lives as long as a tab watches the job."""
        with self._lock:
            mirror = self._mirror(job)
            opened = mirror.open()
            mailbox = opened.__enter__()
        try:
            yield mailbox
        finally:
            with self._lock:
                opened.__exit__(None, None, None)
                if job is not None and mirror.idle and self._jobs.get(job) is mirror:
                    del self._jobs[job]
                    mirror.close()
                    self._closing = [each for each in self._closing if each.running] + [mirror]

    def close(self) -> None:
        """Close all mirrors and wait for their threads. A tab that opens later gets a closed mailbox."""
        with self._lock:
            self._closed = True
            mirrors = [*self._jobs.values(), self._cluster]
        for mirror in mirrors:
            mirror.close()
        for mirror in [*mirrors, *self._closing]:
            mirror.join()

    def _mirror(self, job: str | None) -> Mirror:
        if job is None or self._closed:
            return self._cluster
        if job not in self._jobs:
            self._jobs[job] = Mirror(Connection(self._connect), job)
        return self._jobs[job]
