"""Connections to a port of a task, for a user's machine. One forward carries many connections, as numbered chunks.

The caller chooses the number of a connection, and opens it with its first data. It fetches what the task sends with
``output``. Both directions count what was received, so that a repeated request changes nothing. Used by
``forward_routes``.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
from dataclasses import dataclass, field

from grass.errors import ConflictError
from grass.wire.channel_views import ForwardOutput
from node.api.channels import ABANDONED, GLANCE, MOST_WAITING, Channel
from node.runtime.kind import Reach

MOST_CONNECTIONS = 256
"""Most open connections of one forward."""
MOST_UNWRITTEN = 256 * 1024
"""Most bytes of one connection that the task has not read yet."""
MOST_LAST = 8 << 20
"""Most bytes that wait for the caller once the attempt has ended, so that the last output of a task arrives."""
CONNECT_SECONDS = 3.0
_READ = 64 * 1024


@dataclass
class _Connection:
    """One connection to the task.

    ``taken``: bytes that the caller has sent. ``ended``: it sends no more.
    """

    socket: socket.socket
    taken: int = 0
    unwritten: bytearray = field(default_factory=bytearray)
    ended: bool = False


class Forward(Channel[int]):
    """The connections of one user to one port of a task. Positions in its output count chunks, of all connections.

    A chunk is the number of the connection, and data; None: the task has closed it. ``task``: the ports of the attempt.
    The forward ends with the attempt, and closes ``task``. ``abandoned``: as for ``Channel``.
    """

    def __init__(self, task: Reach, port: int, abandoned: float = ABANDONED) -> None:
        super().__init__(abandoned)
        self._task, self._port = task, port
        self._connections: dict[int, _Connection] = {}
        self._finished: set[int] = set()
        self._wake, self._woken = socket.socketpair()
        self._wake.setblocking(False)
        self._thread.start()

    def output(self, after: int) -> ForwardOutput:
        chunks, following, over = self.take(after)
        return ForwardOutput(tuple(chunks), following, over, 0.0)

    def send(self, number: int, at: int, data: bytes, *, end: bool) -> int:
        """Take data of a connection; ``at``: how many bytes came before. Return how many bytes were taken in all.

        Raises ConflictError for too many connections, or if nothing listens on the port."""
        with self._changed:
            if self._ending or number in self._finished:
                return at + len(data)  # dropped: the caller learns of the connection's end from the chunks
            connection = self._connections.get(number)
        if connection is None:
            connection = self._open(number)
        with self._changed:
            new = data[max(0, connection.taken - at) :] if at <= connection.taken else b""
            new = new[: MOST_UNWRITTEN - len(connection.unwritten)]
            connection.unwritten += new
            connection.taken += len(new)
            connection.ended = connection.ended or (end and connection.taken >= at + len(data))
            self._look_again()
            return connection.taken

    def close(self, number: int) -> None:
        """Close a connection that the caller has closed."""
        with self._changed:
            self._finish(number)
            self._look_again()

    @staticmethod
    def _steps(data: bytes | None) -> int:
        return 1

    def _look_again(self) -> None:
        """Wake the thread. It needs no more wake-ups if it has ended, or has not read the earlier ones yet."""
        super()._look_again()
        with contextlib.suppress(OSError):
            self._wake.send(b"x")

    def _open(self, number: int) -> _Connection:
        if len(self._connections) >= MOST_CONNECTIONS:
            raise ConflictError(f"more than {MOST_CONNECTIONS} connections at once; close some first")
        opened = self._connect()
        opened.setblocking(False)
        with self._changed:
            found = _Connection(opened)
            wanted = not self._ending and number not in self._finished
            if wanted:
                found = self._connections.setdefault(number, found)
        if not wanted or found.socket is not opened:  # its end, or a repeated request, was faster
            opened.close()
        return found

    def _connect(self) -> socket.socket:
        try:
            return self._task.connect(self._port, CONNECT_SECONDS)
        except OSError as error:
            why = error.strerror or str(error)
            raise ConflictError(f"nothing answers on port {self._port} of the task: {why.lower()}") from error

    def _finish(self, number: int) -> None:
        connection = self._connections.pop(number, None)
        self._finished.add(number)
        if connection is not None:
            connection.socket.close()

    def _release(self) -> None:
        with self._changed:
            self._ending = True
            for number, connection in list(self._connections.items()):
                self._read_rest(number, connection)
                self._finish(number)
            self._task.close()
            self._wake.close()
            self._woken.close()

    def _move(self) -> bool:
        """Wait until sockets are ready, and move data. Return False if the attempt has ended."""
        goes_on = True
        with self._changed, selectors.DefaultSelector() as selector:
            selector.register(self._woken, selectors.EVENT_READ, None)
            selector.register(self._task, selectors.EVENT_READ, None)
            reads = selectors.EVENT_READ if self._waiting < MOST_WAITING else 0
            for number, connection in self._connections.items():
                wanted = reads | (selectors.EVENT_WRITE if connection.unwritten or connection.ended else 0)
                if wanted:
                    selector.register(connection.socket, wanted, number)
            self._changed.release()
            try:
                ready = selector.select(GLANCE)
            finally:
                self._changed.acquire()
            for key, events in ready:
                if key.fileobj is self._task:
                    goes_on = False
                elif key.data is None:
                    self._woken.recv(4096)
                elif key.data in self._connections:
                    self._exchange(key.data, self._connections[key.data], events)
        return goes_on

    def _exchange(self, number: int, connection: _Connection, events: int) -> None:
        try:
            if events & selectors.EVENT_WRITE:
                self._write(connection)
            if events & selectors.EVENT_READ:
                data = connection.socket.recv(_READ)
                self._put(number, data or None)
        except BlockingIOError:
            return
        except OSError:
            self._put(number, None)

    def _write(self, connection: _Connection) -> None:
        if connection.unwritten:
            sent = connection.socket.send(connection.unwritten)
            del connection.unwritten[:sent]
        if connection.ended and not connection.unwritten:
            connection.ended = False
            connection.socket.shutdown(socket.SHUT_WR)

    def _read_rest(self, number: int, connection: _Connection) -> None:
        """Read the last output of a task that has ended."""
        with contextlib.suppress(OSError):
            while self._waiting < MOST_LAST and (data := connection.socket.recv(_READ)):
                self._put(number, data)

    def _put(self, number: int, data: bytes | None) -> None:
        super()._put(number, data)
        if data is None:
            self._finish(number)
