"""HTTP from the client's side: what a server may send, and what it must not."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from grass.api.http_connection import Connection, Reply

Ask = Callable[..., Reply]


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


@pytest.fixture
def ask(server: socket.socket) -> Iterator[Ask]:
    """``ask(answer)`` is the reply to a request that is answered with ``answer``; then the server closes."""
    connections: list[Connection] = []

    def answered(answer: bytes) -> Reply:
        def serve() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(65536)
                peer.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        connections.append(Connection(server.getsockname()))
        try:
            return connections[-1].request("GET", "/", {}, timeout=5.0)
        finally:
            thread.join()

    yield answered
    for connection in connections:
        connection.close()


def chunked(*chunks: bytes) -> bytes:
    body = b"".join(b"%x;note=1\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    return b"HTTP/1.1 200 OK\r\nTRANSFER-encoding: Chunked\r\n\r\n" + body + b"0\r\nTrailer: 1\r\n\r\n"


def test_lines_lie_across_chunks_as_they_like(ask: Ask) -> None:
    reply = ask(chunked(b"on", b"e\ntwo\nth", b"ree\n", b"end"))
    assert [reply.readline() for _ in range(5)] == [b"one\n", b"two\n", b"three\n", b"end", b""]


def test_what_is_left_after_a_line_can_be_read(ask: Ask) -> None:
    reply = ask(chunked(b"one\ntwo\n", b"three"))
    assert reply.readline() == b"one\n"
    assert reply.read() == b"two\nthree"


def test_a_reply_without_a_length_ends_with_its_connection(ask: Ask) -> None:
    reply = ask(b"HTTP/1.0 200 OK\r\n\r\nabc")
    assert reply.closes
    assert reply.read() == b"abc"


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 two hundred\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"".join(b"N%d: 1\r\n" % number for number in range(200)) + b"\r\n",
        b"HTTP/1.1 200 OK\r\nLong: " + b"x" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nabc\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc",
    ],
)
def test_a_reply_that_breaks_off_or_is_no_http_is_an_os_error(ask: Ask, answer: bytes) -> None:
    with pytest.raises(OSError):
        ask(answer).read()


def test_what_nobody_read_of_a_reply_is_not_taken_for_the_next(server: socket.socket) -> None:
    connection = Connection(server.getsockname())
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(connection.request, "GET", "/1", {}, timeout=5.0)
        peer, _ = server.accept()
        peer.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n")
        assert first.result(5).readline() == b"one\n"
        assert b"GET /1 " in peer.recv(65536)
        second = pool.submit(connection.request, "GET", "/2", {}, timeout=5.0)
        peer.sendall(b"4\r\ntwo\n\r\n0\r\n\r\n")
        assert b"GET /2 " in peer.recv(65536)
        peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nthree")
        assert second.result(5).read() == b"three"
    connection.close()
    peer.close()
