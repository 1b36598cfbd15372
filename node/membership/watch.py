"""Wakes the requests that wait for shared values: once for each change, without looking at the store in between.

A request says which value it waits for, looks at it, and waits. The listener's thread wakes it when the value changes,
and whenever changes may have been missed: when the listener has begun, and when it has failed. Used by
``shared_values``.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from grass.backoff import Backoff
from grass.errors import GrassError
from grass.store.backend import Listener
from grass.store.shared_store import SharedStore
from grass.system import clock

_LISTEN_SECONDS = 10.0
"""Seconds without a message after which the connection is tried."""

log = logging.getLogger(__name__)


class Waiter:
    """A request that waits. ``name``: of the value in the store; set it before looking at the value. ``over``: the job
    was forgotten, so nothing wakes it any more."""

    def __init__(self) -> None:
        self.name = ""
        self.over = False
        self._woken = threading.Event()

    def wake(self) -> None:
        self._woken.set()

    def wait(self, seconds: float) -> None:
        """Wait until it is woken, and be ready to be woken again. What came before this call counts, too."""
        self._woken.wait(seconds)
        self._woken.clear()


class Watch:
    """Safe for many threads. The thread starts with the first request that waits, and goes on to the process's end."""

    def __init__(self, store: SharedStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._waiters: dict[str, set[Waiter]] = {}
        """Channel → who waits. A channel stays until its job is forgotten."""
        self._listener: Listener | None = None
        self._started = False

    @contextmanager
    def waiting(self, space: str) -> Iterator[Waiter]:
        """Register a request that waits for values of a job."""
        waiter, channel = Waiter(), self._store.channel(space)
        with self._lock:
            fresh = channel not in self._waiters
            self._waiters.setdefault(channel, set()).add(waiter)
            listener, start = self._listener, not self._started
            self._started = True
        if start:
            threading.Thread(target=self._run, name="shared-values", daemon=True).start()
        elif fresh and listener is not None:
            with suppress(GrassError):  # its thread opens another one, for all channels
                listener.add(channel)
        try:
            yield waiter
        finally:
            with self._lock:
                self._waiters.get(channel, set()).discard(waiter)

    def wake(self, space: str) -> None:
        """Wake all requests of a job: its membership has changed."""
        self._wake(self._store.channel(space), None)

    def forget(self, space: str) -> None:
        """Stop to listen for a job."""
        channel = self._store.channel(space)
        with self._lock:
            waiters, listener = self._waiters.pop(channel, None), self._listener
        if waiters is not None and listener is not None:
            with suppress(GrassError):
                listener.remove(channel)
        for waiter in waiters or ():
            waiter.over = True
            waiter.wake()

    def _wake(self, channel: str, name: str | None) -> None:
        with self._lock:
            for waiter in self._waiters.get(channel, ()):
                if name is None or waiter.name == name:
                    waiter.wake()

    def _run(self) -> None:
        backoff = Backoff(0.05, 1.0)
        while True:
            try:
                with self._listening() as listener:
                    while True:
                        if message := listener.next(_LISTEN_SECONDS):
                            self._wake(*message)
                        backoff.reset()
            except GrassError as error:
                log.info("changes of shared values are not received (%s); trying again", error)
            with self._lock:
                channels = list(self._waiters)
            for channel in channels:
                self._wake(channel, None)
            clock.sleep(backoff.next())

    @contextmanager
    def _listening(self) -> Iterator[Listener]:
        listener = self._store.listen()
        try:
            with self._lock:
                self._listener, channels = listener, list(self._waiters)
            for channel in channels:
                listener.add(channel)
            yield listener
        finally:
            with self._lock:
                self._listener = None
            listener.close()
