"""The client's side of a forward, without a cluster."""

from __future__ import annotations

import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

from grass.api.forwarding import HOST, Forwarding
from grass.api.transport import Transport
from grass.wire.calls import Forward, ForwardInput
from grass.wire.channel_views import Accepted
from grass.wire.codec import Form, builtins
from node.api import forwards
from tests.support.answers import Answers

INPUT: Form[ForwardInput] = Form(ForwardInput)


class Task(Answers):
    """Answers as the master does, of a task that says nothing and ends when it is told to."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    def call(self, method: str, path: str, body: object = None, **_: Any) -> dict[str, Any]:
        if method == "POST":
            return {"id": "f-1", "task": "c.0", "node": "n1", "port": "page"}
        return {"chunks": [], "next": 0, "over": self.ended.wait(20), "pause": 0.0}


class Port:
    """A port whose server greets whoever connects, and hears the client out."""

    def __init__(self) -> None:
        self._ended = os.eventfd(0, os.EFD_CLOEXEC)
        self.accepted: list[socket.socket] = []

    def connect(self, port: int, seconds: float) -> socket.socket:
        ours, theirs = socket.socketpair()
        theirs.sendall(b"220 ready\n")
        self.accepted.append(theirs)
        return ours

    def fileno(self) -> int:
        return self._ended

    def close(self) -> None:
        os.close(self._ended)


class Node(Answers):
    """Passes on to a node's side of a forward, as the master does. ``asked``: input, in the order in which it came."""

    def __init__(self, forward: forwards.Forward) -> None:
        self._forward = forward
        self.asked: list[ForwardInput] = []

    def call(self, method: str, path: str, body: object = None, **_: Any) -> Any:
        if path.endswith("/input"):
            self.asked.append(INPUT.convert(body))
            return builtins(Accepted(self._forward.give(self.asked[-1])))
        if method == "GET":
            return builtins(self._forward.output(int(path.rpartition("=")[2])))
        if method == "DELETE":
            self._forward.cancel()
        return {"id": "f-1", "task": "c.0", "node": "n1", "port": "page"}


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


def test_a_client_that_waits_for_its_server_to_speak_hears_it() -> None:
    task = Port()
    node = Node(forwards.Forward(task, 22))
    forwarding = Forwarding(cast(Transport, node), "/v1/jobs/j/forward", Forward())
    address = forwarding._listener.getsockname()
    with ThreadPoolExecutor(1) as pool, socket.create_connection(address, timeout=20) as connection:
        serving = pool.submit(forwarding.serve)
        assert connection.recv(100) == b"220 ready\n"
        connection.sendall(b"QUIT\n")
        assert task.accepted[0].recv(100) == b"QUIT\n"
        forwarding.close()
        serving.result(10)
    assert [(each.at, each.data) for each in node.asked] == [(0, b""), (0, b"QUIT\n")]
    task.accepted[0].close()


def test_a_client_that_speaks_first_costs_no_request_more() -> None:
    task = Port()
    node = Node(forwards.Forward(task, 80))
    forwarding = Forwarding(cast(Transport, node), "/v1/jobs/j/forward", Forward())
    with ThreadPoolExecutor(1) as pool, socket.create_connection(forwarding._listener.getsockname()) as connection:
        connection.sendall(b"GET")
        serving = pool.submit(forwarding.serve)
        assert connection.recv(100) == b"220 ready\n"
        forwarding.close()
        serving.result(10)
    assert [(each.at, each.data) for each in node.asked] == [(0, b"GET")]
    task.accepted[0].close()
