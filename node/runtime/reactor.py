"""The event loop of a runtime with a server: descriptors, timers, worker threads, and events for the node-agent.

Driven by the runtime's ``receive`` in the node-agent's thread. It knows nothing of containers or pods.
"""

from __future__ import annotations

import os
import select
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from grass.system import clock
from node.runtime.protocol import RuntimeEvent
from node.runtime.timers import Timers
from node.runtime.workers import Workers

STARTERS, ERRANDS, REMOVERS = 4, 3, 2
"""Threads that start containers, that inspect and signal, and that remove."""


class Reactor:
    def __init__(self) -> None:
        self._news: list[RuntimeEvent] = []
        self._timers = Timers()
        self._poll = select.epoll()
        self._wakeup = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll.register(self._wakeup, select.EPOLLIN)
        self._posted: deque[Callable[[], None]] = deque()
        self._handlers: dict[int, Callable[[], None]] = {self._wakeup: self._woken}
        self.starters = Workers(STARTERS, self.wake)
        self.errands = Workers(ERRANDS, self.wake)
        self.removers = Workers(REMOVERS, self.wake)
        self._workers = (self.starters, self.errands, self.removers)

    def turn(self) -> list[RuntimeEvent]:
        """Do everything that is due, without waiting. Return the events since the last turn."""
        self._timers.run(clock.steady())
        for descriptor, _ in self._poll.poll(0):
            handler = self._handlers.get(descriptor)
            if handler is not None:  # otherwise an earlier handler of this turn closed it
                handler()
        news, self._news = self._news, []
        return news

    def fileno(self) -> int:
        return self._poll.fileno()

    def due(self) -> float | None:
        return self._timers.due

    def at(self, due: float, action: Callable[[], None]) -> None:
        """Call ``action`` at this steady time."""
        self._timers.at(due, action)

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        self._timers.at(clock.steady() + seconds, action)

    def watch(self, descriptor: int, handler: Callable[[], None]) -> None:
        """Call ``handler`` whenever the descriptor is readable."""
        self._handlers[descriptor] = handler
        self._poll.register(descriptor, select.EPOLLIN)

    def unwatch(self, descriptor: int) -> None:
        """Stop watching a descriptor. Must be called before it is closed."""
        del self._handlers[descriptor]
        self._poll.unregister(descriptor)

    def post(self, action: Callable[[], None]) -> None:
        """Call ``action`` in the loop. For any thread."""
        self._posted.append(action)
        self.wake()

    def publish(self, news: RuntimeEvent) -> None:
        """Add an event for the node-agent and wake it."""
        self._news.append(news)
        self.wake()

    def wake(self) -> None:
        with suppress(OSError):  # closed in the meantime
            os.eventfd_write(self._wakeup, 1)

    def end_work(self, seconds: float) -> bool:
        """Wait up to ``seconds`` for requests in progress. Queued requests are dropped. Return whether none is left."""
        deadline = clock.steady() + seconds
        return all([workers.close(deadline) for workers in self._workers])

    def close(self) -> None:
        self._poll.close()
        os.close(self._wakeup)

    def _woken(self) -> None:
        with suppress(BlockingIOError):
            os.eventfd_read(self._wakeup)
        while self._posted:
            self._posted.popleft()()
        for workers in self._workers:
            workers.handle()
