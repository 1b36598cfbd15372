"""What the front bears of requests that were read and wait for their answer: a real loop, sockets and threads."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from grass.serving.front import Answered, Front, Limits
from tests.support.waiting import wait_until

REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


class Held:
    """A front whose requests are answered when ``go`` is set."""

    def __init__(self, limits: Limits, threads: ThreadPoolExecutor | None = None) -> None:
        self.go = threading.Event()
        self.fault: Exception | None = None
        self.begun = threading.Semaphore(0)
        self.addresses: list[str] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.loop = asyncio.new_event_loop()
        self.threads = threads or ThreadPoolExecutor(8)
        self.front = Front(self.loop, self.threads, self._answer, lambda *_: None, limits)
        self.loop.call_soon(self.front.listen, self.listener)
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()

    def _answer(self, sock: socket.socket, address: tuple[str, int], raw: bytes) -> Answered:
        if self.fault is not None:
            raise self.fault
        self.addresses.append(address[0])
        self.begun.release()
        self.go.wait(20)
        sock.send(REPLY)
        return Answered(reusable=False)

    def connect(self, sent: bytes, address: str = "127.0.0.1") -> socket.socket:
        peer = socket.create_connection(self.listener.getsockname(), 20, (address, 0))
        peer.sendall(sent)
        return peer

    @property
    def requests(self) -> int:
        """Complete requests that have no reply yet."""

        async def count() -> int:
            return self.front.unanswered

        return asyncio.run_coroutine_threadsafe(count(), self.loop).result(20)

    def close(self) -> None:
        self.go.set()
        asyncio.run_coroutine_threadsafe(self.front.stop(5), self.loop).result(20)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.threads.shutdown()
        self.loop.close()
        self.listener.close()


class Exhausted(ThreadPoolExecutor):
    """Queues what it gets, and then fails to start a thread for it, as ``submit`` does when the machine has none."""

    def submit(self, *call: Any, **named: Any) -> Future[Any]:
        super().submit(*call, **named)
        raise RuntimeError("can't start new thread")


@contextmanager
def held(limits: Limits, threads: ThreadPoolExecutor | None = None) -> Iterator[Held]:
    front = Held(limits, threads)
    try:
        yield front
    finally:
        front.close()


def post(size: int) -> bytes:
    return b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size


def test_requests_that_wait_for_their_answer_count_as_buffered() -> None:
    with held(Limits(body=1 << 20, buffered=150_000)) as front, ExitStack() as peers:
        first = [peers.enter_context(front.connect(post(60_000))) for _ in range(2)]
        for _ in first:
            assert front.begun.acquire(timeout=20)
        large = peers.enter_context(front.connect(post(200_000)[:50_000]))
        assert large.recv(100).startswith(b"HTTP/1.1 503 ")
        front.go.set()
        assert [peer.recv(100) for peer in first] == [REPLY, REPLY]
        later = peers.enter_context(front.connect(post(80_000)))
        assert later.recv(100) == REPLY


def test_no_connection_is_taken_while_as_many_as_may_be_wait_for_their_answer() -> None:
    with held(Limits(connections=3, request_seconds=60.0)) as front, ExitStack() as peers:
        first = [peers.enter_context(front.connect(post(1))) for _ in range(3)]
        for _ in first:
            assert front.begun.acquire(timeout=20)
        one_more = peers.enter_context(socket.create_connection(front.listener.getsockname(), 20))
        assert one_more.recv(100) == b""
        front.go.set()
        assert [peer.recv(100) for peer in first] == [REPLY] * 3


def test_the_addresses_take_turns_so_that_one_with_many_requests_does_not_keep_the_others_waiting() -> None:
    with held(Limits(answered=1)) as front, ExitStack() as peers:
        many = [peers.enter_context(front.connect(post(1))) for _ in range(5)]
        assert front.begun.acquire(timeout=20)
        wait_until(lambda: front.requests == 5)
        other = peers.enter_context(front.connect(post(1), "127.0.0.2"))
        wait_until(lambda: front.requests == 6)
        front.go.set()
        assert [peer.recv(100) for peer in (*many, other)] == [REPLY] * 6
        assert front.addresses.index("127.0.0.2") <= 2


def test_a_request_that_was_queued_before_the_threads_ran_out_is_answered_once() -> None:
    with held(Limits(), Exhausted(2)) as front:
        front.go.set()
        for _ in range(50):
            with front.connect(post(1)) as peer:
                said = b"".join(iter(lambda peer=peer: peer.recv(1000), b""))  # type: ignore[misc]
            assert said.count(b"HTTP/1.1 ") == 1
        wait_until(lambda: front.requests == 0)


def test_a_request_whose_handler_fails_is_logged_and_its_connection_closed(caplog: pytest.LogCaptureFixture) -> None:
    with held(Limits()) as front:
        front.fault = ValueError("a defect of the handler")
        with front.connect(post(1)) as peer:
            assert peer.recv(100) == b""
    assert "a request was not answered" in caplog.text and "a defect of the handler" in caplog.text


def test_one_address_may_have_only_so_many_connections_that_wait() -> None:
    with held(Limits(connections=100, of_address=2, request_seconds=60.0)) as front, ExitStack() as peers:
        first, *others = [peers.enter_context(front.connect(b"", "127.0.0.2")) for _ in range(3)]
        other = peers.enter_context(front.connect(b""))
        assert first.recv(1) == b""  # the oldest makes room
        front.go.set()
        for peer in (*others, other):
            peer.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert peer.recv(999) == REPLY
