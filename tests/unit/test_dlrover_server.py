"""The HTTP server of the master for DLRover's clients, over real connections: what it refuses, and what it bounds."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.support.dlrover_pickles import library
from tests.support.waiting import wait_until

server, pickles = library("server"), library("pickles")
UID = "secret"


class Running:
    def __init__(self) -> None:
        self.listener = server.listen(0)
        self.port = self.listener.getsockname()[1]
        self.said: list[str] = []
        self.server = server.Server(self.listener, UID, self.answer, self.said.append)
        self._ended, self.turns = False, 0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended:
            self.server.turn(0.02)
            self.turns += 1

    def answer(self, path: str, body: bytes) -> bytes:
        if path == "/refused":
            raise pickles.Refused("no message of DLRover")
        return path.encode() + b" " + body

    def end(self) -> None:
        self._ended = True
        self._thread.join()
        self.server.close()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)

    def ask(self, data: bytes) -> bytes:
        """Send this, say that nothing more comes, and return all that is answered."""
        with self.connect() as client:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: client.recv(1 << 16), b""))


@pytest.fixture
def running() -> Iterator[Running]:
    made = Running()
    yield made
    made.end()


def post(body: bytes, path: str = "/get", uid: str = UID, more: str = "") -> bytes:
    return f"POST {path} HTTP/1.1\r\njob_uid: {uid}\r\n{more}Content-Length: {len(body)}\r\n\r\n".encode() + body


def test_requests_on_one_connection_are_answered_in_turn(running: Running) -> None:
    found = running.ask(post(b"a") + post(b"b", "/report", more="Connection: close\r\n") + post(b"c"))
    assert found.count(b"HTTP/1.1 200 OK") == 2
    assert found.endswith(b"Connection: close\r\n\r\n/report b")


def test_a_request_may_come_in_pieces(running: Running) -> None:
    with running.connect() as client:
        for piece in (post(b"abc")[at : at + 7] for at in range(0, len(post(b"abc")), 7)):
            client.sendall(piece)
        assert client.recv(1000).endswith(b"/get abc")


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 405),
        (b"POST /get HTTP/1.1\r\njob_uid: secret\r\n\r\n", 411),
        (b"POST /get HTTP/1.1\r\nContent-Length: 1\r\n\r\nx", 406),
        (post(b"x", uid="secret1"), 406),
        (post(b"x", uid=""), 406),
        (post(b"x", "/refused"), 400),
        (b"POST /get HTTP/1.1\r\njob_uid: secret\r\nContent-Length: 9999999999\r\n\r\n", 413),
        (b"x" * 20_000, 413),
    ],
)
def test_what_cannot_be_answered_is_refused(running: Running, data: bytes, status: int) -> None:
    assert running.ask(data).startswith(b"HTTP/1.1 %d " % status)
    assert running.ask(post(b"next")).endswith(b"/get next"), "the server goes on"


def test_a_long_answer_waits_for_a_slow_client(running: Running) -> None:
    body = b"x" * 1_900_000
    with running.connect() as client:
        client.sendall(post(body, more="Connection: close\r\n"))
        with running.connect() as other:
            other.sendall(post(b"quick"))
            assert other.recv(1000).endswith(b"/get quick"), "another one does not wait for it"
        found = b"".join(iter(lambda: client.recv(1 << 16), b""))
    assert found.endswith(b"/get " + body)


def test_a_connection_whose_long_answer_was_taken_costs_nothing(running: Running) -> None:
    body = b"x" * 1_900_000
    with running.connect() as client:
        client.sendall(post(body))
        size = len(body) + len(b"HTTP/1.1 200 OK\r\nContent-Length: 1900005\r\n\r\n/get ")
        while size > 0:
            size -= len(client.recv(1 << 16))
        turns, begun = running.turns, time.monotonic()
        wait_until(lambda: running.turns >= turns + 10, what="ten turns")
        assert time.monotonic() - begun > 0.1, "each of them waits"
        client.sendall(post(b"next"))
        assert client.recv(1000).endswith(b"/get next")


def test_a_connection_that_says_nothing_is_closed(running: Running) -> None:
    running.server.idle_seconds = 0.2
    with running.connect() as client:
        client.settimeout(10)
        assert client.recv(1) == b""
    wait_until(lambda: not running.server.connections, what="no connection")


def test_the_master_listens_at_its_address_alone_if_it_has_one() -> None:
    with server.listen(0, "127.0.0.1") as own, server.listen(0, "192.0.2.1") as foreign, server.listen(0, "::1") as six:
        assert own.getsockname()[0] == "127.0.0.1" and six.getsockname()[0] == "::1"
        assert foreign.getsockname()[0] in ("::", "0.0.0.0"), "of a machine that others reach by another address"
