"""Accepts connections of nodes over TCP, and closes those that do not soon prove to be of one. Used by ``__main__``.

asyncio's own server accepts as many as come, and each costs a quarter of a megabyte as soon as it is accepted (the
buffer of TLS), before its peer has shown anything. Here that is made once the peer has sent something.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
from collections.abc import Callable
from contextlib import suppress

from grass.serving.newcomers import Newcomers
from grass.tls import ServerContext
from master.collector.server import HANDSHAKE_SECONDS, Connection

MOST = 256
"""Connections of all addresses that have not proved to be of a node. They take 64 MiB of memory at most."""
OF_ADDRESS = 64
BACKLOG = 512
_AT_ONCE = 64
"""Connections to accept before other events are handled."""
_FAILED_UNTIL_COLLECTED = 256
_PAUSE = 1.0
"""Seconds to accept nothing, when this process may open no more files."""

log = logging.getLogger(__name__)


class Listener:
    """The collector's port for nodes. ``make``: makes what serves a connection. ``context``: it speaks TLS."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        make: Callable[[], Connection],
        context: ServerContext | None,
        most: int = MOST,
        of_address: int = OF_ADDRESS,
    ) -> None:
        self._loop = loop
        self._make = make
        self._context = context
        self._newcomers: Newcomers[socket.socket] = Newcomers(most, of_address)
        self._welcomes: set[asyncio.Task[None]] = set()
        self._socket: socket.socket | None = None
        self._failed = 0

    def listen(self, host: str, port: int) -> int:
        """Begin to accept; return the port. Raises OSError."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family, backlog=BACKLOG)
        self._socket.setblocking(False)
        self._loop.add_reader(self._socket, self._accept)
        return int(self._socket.getsockname()[1])

    def close(self) -> None:
        """Accept nothing more. Connections that were accepted go on."""
        if self._socket is not None:
            self._loop.remove_reader(self._socket)
            self._socket.close()
            self._socket = None

    @property
    def unproved(self) -> int:
        return len(self._newcomers)

    def _accept(self) -> None:
        assert self._socket is not None
        for _ in range(_AT_ONCE):
            try:
                connection, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                log.error("cannot accept connections: %s; trying again in %g s", error, _PAUSE)
                self._loop.remove_reader(self._socket)
                self._loop.call_later(_PAUSE, self._resume)
                return
            while (oldest := self._newcomers.to_close(address[0])) is not None:
                self._newcomers.remove(oldest)
                _end(oldest)
            connection.setblocking(False)
            self._newcomers.add(address[0], connection)
            if self._context is None:  # the collector speaks first
                self._begin(connection)
            else:
                late = self._loop.call_later(HANDSHAKE_SECONDS, _end, connection)
                self._loop.add_reader(connection, self._spoken, connection, late)

    def _spoken(self, connection: socket.socket, late: asyncio.TimerHandle) -> None:
        """The peer began the handshake, or its connection was ended."""
        late.cancel()
        self._loop.remove_reader(connection)
        self._begin(connection)

    def _begin(self, connection: socket.socket) -> None:
        welcome = self._loop.create_task(self._welcome(connection))
        self._welcomes.add(welcome)
        welcome.add_done_callback(self._welcomes.discard)

    def _resume(self) -> None:
        if self._socket is not None:
            self._loop.add_reader(self._socket, self._accept)

    async def _welcome(self, connection: socket.socket) -> None:
        if _ended(connection):
            self._newcomers.remove(connection)
            connection.close()
            return
        served = self._make()
        served.settled = lambda: self._newcomers.remove(connection)
        secure = None if self._context is None else self._context.current()
        seconds = None if secure is None else HANDSHAKE_SECONDS
        try:
            await self._loop.connect_accepted_socket(
                lambda: served, connection, ssl=secure, ssl_handshake_timeout=seconds
            )
        except OSError as error:  # the handshake failed, which the context reports; or the peer is gone
            error.__traceback__ = None  # its frames refer to it, and to buffers, until the next collection of garbage
            served.settled()
            connection.close()
            self._failed += 1
            if self._failed % _FAILED_UNTIL_COLLECTED == 0:
                gc.collect()  # a closed transport refers to itself, and this process collects garbage rarely


def _end(connection: socket.socket) -> None:
    """Have whoever waits for the connection see its end, whatever state it is in."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _ended(connection: socket.socket) -> bool:
    try:
        return not connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True
