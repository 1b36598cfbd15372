"""The client's side of a forward: a port of this machine leads to a port of a task, through the encrypted API.

Made by ``Client.forward``. One thread fetches what the task sends; each local connection has one thread per
direction.
"""

from __future__ import annotations

import contextlib
import queue
import select
import socket
import threading
from dataclasses import dataclass, field

from grass.api.channel import LARGEST_INPUT, OUTPUT_SECONDS, Channel
from grass.api.transport import Transport
from grass.errors import GrassError
from grass.system import clock
from grass.wire.calls import Forward, ForwardInput
from grass.wire.channel_views import ForwardStarted
from grass.wire.codec import Form
from grass.wire.node_api import FORWARD

HOST = "127.0.0.1"
_SENDERS = 6
"""Requests with input at once: the master makes only a few calls to nodes at once."""
_WAITING = 256
"""Most chunks that a local connection may leave unread."""
_STALLED = 30.0
"""Seconds after which a local connection that reads nothing is closed, so that the others go on."""
_FIRST_WORDS = 0.05
"""Seconds in which most clients speak. The connection to the task is opened with what they say, or without it then:
servers of some protocols speak first."""
_PAUSE = 0.02
"""Seconds until input is offered again, if the task does not read."""
_STARTED: Form[ForwardStarted] = Form(ForwardStarted)


@dataclass
class _Local:
    """A connection of this machine. ``sent``: bytes that the node has taken."""

    socket: socket.socket
    sent: int = 0
    incoming: queue.Queue[bytes | None] = field(default_factory=lambda: queue.Queue(_WAITING))
    closed: threading.Event = field(default_factory=threading.Event)


class Forwarding:
    """An open forward.

    ``task``, ``node``, ``port``: where the connections lead. ``url``: their beginning on this machine.
    """

    def __init__(self, transport: Transport, path: str, wanted: Forward, local_port: int = 0) -> None:
        """``local_port``: of this machine; 0: a free one. Raises OSError if the port is taken."""
        self._listener = socket.create_server((HOST, local_port))
        try:
            self._channel = Channel(transport, path, wanted, _STARTED, FORWARD)
        except BaseException:
            self._listener.close()
            raise
        opened = self._channel.opened
        self.task, self.node, self.port = opened.task, opened.node, opened.port
        self.url = f"http://{HOST}:{self._listener.getsockname()[1]}/"
        self._locals: dict[int, _Local] = {}
        self._lock = threading.Lock()
        self._senders = threading.BoundedSemaphore(_SENDERS)
        self._problem: GrassError | None = None
        self._closed = False

    def serve(self) -> None:
        """Accept connections until ``close``, or until the task ends. Raises UnreachableError, NotFoundError."""
        receiver = threading.Thread(target=self._receive, name="forward-output", daemon=True)
        receiver.start()
        number = 0
        while not self._closed:
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                break  # closed
            number += 1
            local = _Local(accepted)
            if not self._registered(number, local):
                break
            threading.Thread(target=self._carry, args=(number, local), name="forward-carry", daemon=True).start()
        with self._lock:
            left = list(self._locals.values())
        for local in left:
            local.closed.wait(_STALLED)
        receiver.join(OUTPUT_SECONDS)
        if self._problem is not None:
            raise self._problem

    def _registered(self, number: int, local: _Local) -> bool:
        """Close it instead if all others have been told the end already."""
        with self._lock:
            if self._closed:
                local.socket.close()
                return False
            self._locals[number] = local
            return True

    def close(self) -> None:
        """End the forward with all its connections."""
        self._stop()
        with contextlib.suppress(GrassError):
            self._channel.close()

    def _stop(self) -> None:
        """Accept nothing more. Data that the task has sent already is still delivered."""
        self._closed = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # ends ``accept``, which closing alone does not
        self._listener.close()
        with self._lock:
            left = list(self._locals.values())
        for local in left:
            with contextlib.suppress(OSError):
                local.socket.shutdown(socket.SHUT_RD)
            with contextlib.suppress(queue.Full):
                local.incoming.put(None, timeout=_STALLED)

    def _receive(self) -> None:
        try:
            for answer in self._channel.answers():
                for number, data in answer.chunks:
                    self._hand_over(number, data)
                if answer.over or self._closed:
                    break
        except GrassError as error:
            self._problem = None if self._closed else error
        finally:
            self._stop()

    def _hand_over(self, number: int, data: bytes | None) -> None:
        with self._lock:
            local = self._locals.get(number)
        if local is None:
            return
        try:
            local.incoming.put(data, timeout=_STALLED)
        except queue.Full:
            with contextlib.suppress(OSError):
                local.socket.shutdown(socket.SHUT_RDWR)

    def _carry(self, number: int, local: _Local) -> None:
        """Carry a connection until both of its directions have ended. This thread writes to it what the task sends."""
        sender = threading.Thread(target=self._send, args=(number, local), name="forward-send", daemon=True)
        sender.start()
        with contextlib.suppress(OSError):
            while (data := local.incoming.get()) is not None:
                local.socket.sendall(data)
            local.socket.shutdown(socket.SHUT_WR)
        sender.join()
        with self._lock:
            self._locals.pop(number, None)
        local.socket.close()
        local.closed.set()

    def _send(self, number: int, local: _Local) -> None:
        """Send what the local connection says, and its end."""
        try:
            if not _speaks(local.socket):
                self._offer(number, local, b"", end=False)
            while data := local.socket.recv(LARGEST_INPUT):
                self._offer(number, local, data, end=False)
            if not self._closed:
                self._offer(number, local, b"", end=True)
        except (OSError, GrassError):
            self._refuse(number, local)

    def _offer(self, number: int, local: _Local, data: bytes, *, end: bool) -> None:
        first = local.sent
        while True:
            rest = data[local.sent - first :]
            with self._senders:
                taken = self._channel.give(ForwardInput(connection=number, at=local.sent, data=rest, end=end))
            moved = taken > local.sent
            local.sent = taken
            if taken >= first + len(data):
                return
            if not moved:
                clock.sleep(_PAUSE)

    def _refuse(self, number: int, local: _Local) -> None:
        """End a connection that the task does not take, or that broke off on this machine."""
        with contextlib.suppress(queue.Full):
            local.incoming.put(None, timeout=_STALLED)
        if not self._closed:
            with contextlib.suppress(GrassError):
                self._channel.close(f"/connections/{number}")


def _speaks(local: socket.socket) -> bool:
    """Return whether the client on this machine speaks first, or has ended."""
    ready = select.poll()  # not select.select: numbers of descriptors may be large
    ready.register(local, select.POLLIN)
    return bool(ready.poll(_FIRST_WORDS * 1000))
