"""Signals that reach a worker of an API server at any moment."""

from __future__ import annotations

import signal
import threading

from grass.serving.worker import FrontWorker


class Worker(FrontWorker):
    """Ends its waits under a lock, as the API server does. It was made, and does not run yet."""

    def __init__(self) -> None:
        self.alive = True
        self.lock = threading.Lock()
        self._loop = self._ended = None

    def end_waits(self) -> None:
        with self.lock:
            pass


def test_a_signal_may_interrupt_the_worker_while_it_ends_its_waits() -> None:
    worker = Worker()
    with worker.lock:
        thread = threading.Thread(target=worker.handle_exit, args=(signal.SIGTERM, None), daemon=True)
        thread.start()
        thread.join(5)
        assert not thread.is_alive() and not worker.alive
