"""Event-driven front of a server: it reads complete requests, and only a complete request gets a thread.

Run by gunicorn workers (`worker.py`) in their main thread, and by the membership API of a node. Slow, silent and
broken peers cost a socket and a buffer here, never a thread. The front must not block: it neither parses requests nor
makes replies, apart from refusals.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus

from grass import trace
from grass.errors import InputError, UnreachableError
from grass.serving.framing import MOST_BODY, FramingError, request_length
from grass.serving.newcomers import Newcomers
from grass.tls import ServerContext
from grass.wire.codec import encode


@dataclass(frozen=True)
class Answered:
    """How far an answer was sent.

    ``unsent``: bytes that the socket did not accept yet. ``reusable``: the connection may carry another request.
    """

    reusable: bool
    unsent: bytes = b""


Handle = Callable[[socket.socket, tuple[str, int], bytes], Answered]
"""Answers one request, in a thread. The socket is non-blocking. An exception is logged, and closes the connection."""
Refused = Callable[[str, str], None]
"""Called with the address and the reason whenever the front refuses a request."""

log = logging.getLogger("grass.serving")

_READ = 1 << 16
_LOCAL = ("", 0)
"""The address of every peer of a Unix socket."""
_ACCEPTS = 64
"""Connections to accept before other events are handled."""
_LINGER_SECONDS, _LONGEST_LINGER = 2.0, 60.0
"""Time for a peer to read the last reply before its connection is closed, and with the time for what it still sends."""
_MOST_DISCARDED = 64 * 1024 * 1024
"""Bytes to read and ignore from a peer after its last reply: most programs read none before they have sent theirs."""
_LATE = "the request: did not arrive in time; send it again"
_BUSY = "the server: too much waits to be answered; send the request again later"


@dataclass(frozen=True)
class Limits:
    """What all peers together, and each of them, may use."""

    answered: int = 64
    """Requests that are answered at once. Others wait their turn: the addresses take turns, each with its oldest."""
    connections: int = 2000
    """Beyond this many, the oldest waiting connection of the address with the most connections is closed."""
    of_address: int = 1000
    """Waiting connections of one address. Beyond this many, its oldest is closed."""
    body: int = MOST_BODY
    """Bytes of one request without its head."""
    buffered: int = 64 * 1024 * 1024
    """Bytes of all requests that are not answered yet. Beyond this, the largest incomplete one is refused."""
    request_seconds: float = 10.0
    """Time for the head of a request, from its first byte, or from the connection."""
    bytes_per_second: int = 64 * 1024
    """The least speed of a body, or a reply; it adds to the time by its length."""
    idle_seconds: float = 75.0
    """Between two requests."""
    write_seconds: float = 30.0
    """Time for the rest of a reply that the peer did not read at once, besides the time for its length."""


class _Peer:
    """One connection. ``total``: length of the request being read, once known. ``asked``: length of the request that
    is being answered. ``leaving``: it is being closed."""

    __slots__ = (
        "address",
        "asked",
        "buffer",
        "deadline",
        "descriptor",
        "discarded",
        "leaving",
        "reusable",
        "socket",
        "total",
        "unsent",
    )

    def __init__(self, sock: socket.socket, address: tuple[str, int]) -> None:
        self.socket = sock
        self.descriptor = sock.fileno()
        """What the loop gets. With the socket, it would describe the socket in an error for each event not awaited."""
        self.address = address
        self.buffer = bytearray()
        self.total: int | None = None
        self.asked = 0
        self.leaving = False
        self.reusable = False
        self.unsent = memoryview(b"")
        self.discarded = 0
        self.deadline: asyncio.TimerHandle | None = None


class Front:
    """Everything but ``handle`` runs in the thread of ``loop``."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        threads: Executor,
        handle: Handle,
        refused: Refused,
        limits: Limits | None = None,
        tls: ServerContext | None = None,
    ) -> None:
        self._loop = loop
        self._threads = threads
        self._handle = handle
        self._refused = refused
        self._limits = limits or Limits()
        self._tls = tls
        self._listeners: list[socket.socket] = []
        self._waiting: Newcomers[_Peer] = Newcomers(self._limits.connections, self._limits.of_address)
        """Connections without a complete request."""
        self._ready: dict[str, deque[tuple[_Peer, bytes]]] = {}
        """Requests that wait for a thread, by address. The first address is the next whose turn it is."""
        self._busy = 0
        """Requests that are ready, are being answered, or whose reply is being sent."""
        self._answering = 0
        self._buffered = 0
        self._stopped = False
        self._drained = asyncio.Event()

    def listen(self, listener: socket.socket) -> None:
        """Accept connections of a listening socket."""
        listener.setblocking(False)
        self._listeners.append(listener)
        self._loop.add_reader(listener, self._accept, listener)

    @property
    def unanswered(self) -> int:
        """Complete requests whose reply has not been sent yet. Asked in the thread of the loop."""
        return self._busy

    async def stop(self, seconds: float) -> None:
        """Accept nothing more, and wait up to ``seconds`` for requests that are being answered."""
        self._stopped = True
        for listener in self._listeners:
            self._loop.remove_reader(listener)
        for peer in list(self._waiting):
            self._close(peer)
        if self._busy:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._drained.wait(), seconds)

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_ACCEPTS):
            try:
                sock, address = listener.accept()
            except OSError:  # none left, or already gone; or no descriptor is free
                return
            origin = address[:2] if address else _LOCAL
            while (oldest := self._waiting.to_close(origin[0], self._busy)) is not None:
                self._close(oldest)
            if self._busy >= self._limits.connections:
                sock.close()
                continue
            sock.setblocking(False)
            with suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                sock = sock if self._tls is None else self._tls.accepted(sock)
            except OSError:  # the peer is gone
                sock.close()
                continue
            self._read(_Peer(sock, origin), self._limits.request_seconds)

    def _read(self, peer: _Peer, seconds: float) -> None:
        self._waiting.add(peer.address[0], peer)
        self._until(peer, seconds)
        self._loop.add_reader(peer.descriptor, self._readable, peer)

    def _until(self, peer: _Peer, seconds: float) -> None:
        if peer.deadline is not None:
            peer.deadline.cancel()
        peer.deadline = self._loop.call_later(seconds, self._expire, peer)

    def _expire(self, peer: _Peer) -> None:
        if peer.buffer and not peer.leaving:
            self._refuse(peer, HTTPStatus.REQUEST_TIMEOUT, _LATE)
        else:
            self._close(peer)

    def _readable(self, peer: _Peer) -> None:
        try:
            data = peer.socket.recv(_READ)
        except (BlockingIOError, InterruptedError):
            return
        except ssl.SSLError as error:
            self._refused(peer.address[0], f"TLS: {getattr(error, 'verify_message', '') or error.reason or error}")
            self._leave(peer)  # it is still to read why
            return
        except OSError:
            data = b""
        if not data:
            self._close(peer)
        elif peer.leaving:
            peer.discarded += len(data)
            if peer.discarded > _MOST_DISCARDED:
                self._close(peer)
        else:
            if not peer.buffer:
                self._until(peer, self._limits.request_seconds)
            peer.buffer += data
            self._buffered += len(data)
            self._check(peer)

    def _check(self, peer: _Peer) -> None:
        """Answer the request if it is complete. Otherwise refuse the largest one if too much is buffered."""
        if peer.total is None:
            try:
                peer.total = request_length(peer.buffer, self._limits.body)
            except FramingError as error:
                peer.total = error.length
                self._refuse(peer, error.status, str(error))
                return
            if peer.total is not None and peer.total > len(peer.buffer):
                self._until(peer, self._limits.request_seconds + peer.total / self._limits.bytes_per_second)
        if peer.total is not None and len(peer.buffer) >= peer.total:
            self._answer(peer, peer.total)
        elif self._buffered > self._limits.buffered:
            largest = max(self._waiting, key=lambda other: len(other.buffer))
            self._refuse(largest, HTTPStatus.SERVICE_UNAVAILABLE, _BUSY)

    def _answer(self, peer: _Peer, length: int) -> None:
        request = bytes(peer.buffer[:length])
        del peer.buffer[:length]
        peer.asked = length
        peer.total = None
        self._forget(peer)
        self._busy += 1
        trace.mark("request read")
        self._ready.setdefault(peer.address[0], deque()).append((peer, request))
        self._dispatch()

    def _dispatch(self) -> None:
        while self._ready and self._answering < self._limits.answered:
            address = next(iter(self._ready))
            waiting = self._ready.pop(address)
            peer, request = waiting.popleft()
            if waiting:
                self._ready[address] = waiting
            self._answering += 1
            turn = deque([peer])
            try:
                self._threads.submit(self._in_thread, turn, request)
            except RuntimeError:  # no thread can be started, but the request may be queued for those that exist
                with suppress(IndexError):
                    refused = Answered(False, refusal(HTTPStatus.SERVICE_UNAVAILABLE, _BUSY))
                    self._loop.call_soon(self._answered, turn.pop(), refused)

    def _in_thread(self, turn: deque[_Peer], request: bytes) -> None:
        """Answer the request of the peer in ``turn``. Whoever takes it from there answers, and nobody else."""
        try:
            peer = turn.pop()
        except IndexError:
            return
        trace.mark("request in a thread")
        answered = Answered(reusable=False)
        try:
            answered = self._handle(peer.socket, peer.address, request)
        except Exception:
            log.exception("internal error: a request was not answered")
        finally:
            with suppress(RuntimeError):  # the loop is closed, because the process ends
                self._loop.call_soon_threadsafe(self._answered, peer, answered)

    def _answered(self, peer: _Peer, answered: Answered) -> None:
        self._answering -= 1
        self._dispatch()
        self._buffered -= peer.asked
        peer.asked = 0
        peer.reusable = answered.reusable
        if answered.unsent:
            peer.unsent = memoryview(answered.unsent)
            seconds = self._limits.write_seconds + len(peer.unsent) / self._limits.bytes_per_second
            peer.deadline = self._loop.call_later(seconds, self._sent, peer, False)
            self._loop.add_writer(peer.descriptor, self._writable, peer)
        else:
            self._sent(peer, True)

    def _writable(self, peer: _Peer) -> None:
        try:
            peer.unsent = peer.unsent[peer.socket.send(peer.unsent) :]
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._sent(peer, False)
            return
        if not peer.unsent:
            self._sent(peer, True)

    def _sent(self, peer: _Peer, whole: bool) -> None:
        self._loop.remove_writer(peer.descriptor)
        peer.unsent = memoryview(b"")
        self._busy -= 1
        if self._stopped and not self._busy:
            self._drained.set()
        if not whole:
            self._close(peer)
        elif not peer.reusable or self._stopped:
            self._leave(peer)
        elif peer.buffer:
            self._read(peer, self._limits.request_seconds)
            self._check(peer)
        else:
            self._read(peer, self._limits.idle_seconds)

    def _refuse(self, peer: _Peer, status: HTTPStatus, message: str) -> None:
        self._refused(peer.address[0], f"{status.value} {status.phrase}")
        with suppress(OSError):
            peer.socket.send(refusal(status, message))
        self._leave(peer)

    def _leave(self, peer: _Peer) -> None:
        """Send nothing more, but read on for a while: closing at once could discard the reply that is under way, and a
        peer that is still sending would read none."""
        rest = min(_MOST_DISCARDED, max(0, (peer.total or 0) - len(peer.buffer)))
        self._buffered -= len(peer.buffer)
        peer.buffer.clear()
        peer.leaving = True
        try:
            peer.socket.shutdown(socket.SHUT_WR)
        except OSError:
            self._close(peer)
        else:
            self._read(peer, min(_LONGEST_LINGER, _LINGER_SECONDS + rest / self._limits.bytes_per_second))

    def _forget(self, peer: _Peer) -> None:
        self._loop.remove_reader(peer.descriptor)
        self._waiting.remove(peer)
        if peer.deadline is not None:
            peer.deadline.cancel()
            peer.deadline = None

    def _close(self, peer: _Peer) -> None:
        self._forget(peer)
        self._buffered -= len(peer.buffer)
        peer.buffer.clear()
        peer.socket.close()


def refusal(status: HTTPStatus, message: str) -> bytes:
    """Return a complete HTTP reply that refuses a request, in the form of all refusals of Grass."""
    error = UnreachableError if status in (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.SERVICE_UNAVAILABLE) else InputError
    text = encode({"error": {"code": error.code, "message": message}}).encode()
    head = f"HTTP/1.1 {status.value} {status.phrase}\r\nConnection: close\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(text)}\r\n\r\n".encode() + text
