"""Connections to a port of a task, for a user's machine. One forward carries many connections, as numbered chunks.

The caller chooses the number of a connection, and opens it with its first input, which may be empty: servers of some
protocols speak first. It fetches what the task sends with ``output``. Both directions count what was received, so that
a repeated request changes nothing. Used by ``forward_routes``.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
from dataclasses import dataclass

from grass.errors import ConflictError
from grass.wire.calls import ForwardInput
from grass.wire.channel_views import ForwardOutput
from node.api.channels import ABANDONED, GLANCE, MOST_WAITING, Channel
from node.runtime.kind import Reach

MOST_CONNECTIONS = 256
"""Most open connections of one forward."""
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
    ended: bool = False


class Forward(Channel[int]):
    """The connections of one user to one port of a task.

    A piece of output is the number of the connection, and data; None: the task has closed it. ``task``: the ports of
    the attempt. The forward ends with the attempt, and closes ``task``. ``abandoned``: as for ``Channel``.
    """

    COUNTS_BYTES = False

    def __init__(self, task: Reach, port: int, abandoned: float = ABANDONED) -> None:
        super().__init__(abandoned)
        self._task, self._port = task, port
        self._connections: dict[int, _Connection] = {}
        self._finished: set[int] = set()
        self._wake, self._woken = socket.socketpair()
        self._wake.setblocking(False)
        self._thread.start()

    def output(self, after: int) -> ForwardOutput:
        chunks, following, over = self.read_after(after)
        return ForwardOutput(tuple(chunks), following, over, 0.0)

    def give(self, asked: ForwardInput) -> int:
        """Take data of a connection, as much as the task does. Return how many bytes were taken in all.

        Raises ConflictError for too many connections, or if nothing listens on the port."""
        with self._changed:
            if self._ending or asked.connection in self._finished:
                # dropped: the caller learns of the connection's end from the output
                return asked.at + len(asked.data)
            connection = self._connections.get(asked.connection)
        if connection is None:
            connection = self._open(asked.connection)
        with self._changed:
            at, end = asked.at, asked.at + len(asked.data)
            new = asked.data[max(0, connection.taken - at) :] if at <= connection.taken else b""
            try:
                connection.taken += connection.socket.send(new) if new else 0
                if asked.end and not connection.ended and connection.taken >= end:
                    connection.ended = True
                    connection.socket.shutdown(socket.SHUT_WR)
            except BlockingIOError:
                pass  # the task reads no more at the moment
            except OSError:
                if self._connections.get(asked.connection) is connection:
                    self._read_rest(asked.connection, connection)
                    self._put(asked.connection, None)
            self._look_again()
            return connection.taken

    def close(self, number: int) -> None:
        """Close a connection that the caller has closed."""
        with self._changed:
            self._finish(number)
            self._look_again()

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
            if self._waiting < MOST_WAITING:
                for number, connection in self._connections.items():
                    selector.register(connection.socket, selectors.EVENT_READ, number)
            self._changed.release()
            try:
                ready = selector.select(GLANCE)
            finally:
                self._changed.acquire()
            for key, _ in ready:
                if key.fileobj is self._task:
                    goes_on = False
                elif key.data is None:
                    self._woken.recv(4096)
                elif key.data in self._connections:
                    self._read(key.data, self._connections[key.data])
        return goes_on

    def _read(self, number: int, connection: _Connection) -> None:
        try:
            self._put(number, connection.socket.recv(_READ) or None)
        except BlockingIOError:
            return
        except OSError:
            self._put(number, None)

    def _read_rest(self, number: int, connection: _Connection) -> None:
        """Read the last output of a task that has ended, or that has closed the connection."""
        with contextlib.suppress(OSError):
            while self._waiting < MOST_LAST and (data := connection.socket.recv(_READ)):
                self._put(number, data)

    def _put(self, number: int, data: bytes | None) -> None:
        super()._put(number, data)
        if data is None:
            self._finish(number)
