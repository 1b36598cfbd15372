"""The client's side of a forward, without a cluster."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

from grass.api.forwarding import HOST, Forwarding
from grass.api.transport import Transport
from grass.wire.calls import Forward


class Task:
    """Answers as the master does, of a task that says nothing and ends when it is told to."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    def call(self, method: str, path: str, body: object = None, **_: Any) -> dict[str, Any]:
        if method == "POST":
            return {"id": "f-1", "task": "c.0", "node": "n1", "port": "page"}
        return {"chunks": [], "next": 0, "over": self.ended.wait(20), "pause": 0.0}


class LateListener:
    """Hands a connection over when all others have been told that the forward ends."""

    def __init__(self, listener: socket.socket, closed: threading.Event, accepted: threading.Event) -> None:
        self._listener, self._closed, self._accepted = listener, closed, accepted

    def accept(self) -> tuple[socket.socket, Any]:
        found = self._listener.accept()
        self._accepted.set()
        assert self._closed.wait(20)
        return found

    def shutdown(self, how: int) -> None:
        self._listener.shutdown(how)

    def close(self) -> None:
        self._listener.close()
        self._closed.set()

    def getsockname(self) -> Any:
        return self._listener.getsockname()


def test_a_connection_at_the_moment_of_the_tasks_end_is_ended_too() -> None:
    task, closed, accepted = Task(), threading.Event(), threading.Event()
    forwarding = Forwarding(cast(Transport, task), "/v1/jobs/j/forwards", Forward())
    port = forwarding._listener.getsockname()[1]
    forwarding._listener = cast(socket.socket, LateListener(forwarding._listener, closed, accepted))
    with ThreadPoolExecutor(1) as pool, socket.create_connection((HOST, port), timeout=20) as connection:
        serving = pool.submit(forwarding.serve)
        assert accepted.wait(20)
        task.ended.set()
        assert connection.recv(1) == b""
        serving.result(10)
