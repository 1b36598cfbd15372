"""The shepherd's socket: receives messages of clients, pushes events to clients that watch.

Used by ``node.runtime.isolation.service`` and ``shepherd``.
"""

from __future__ import annotations

import logging
import os
import selectors
import socket
from collections.abc import Callable
from contextlib import suppress

from node.runtime.frames import READ, Lines, Outbox
from node.runtime.shepherd_messages import Reply, Request, pack, unpack_request

_DESCRIPTORS = 3
_MOST_WAITING = 64 << 20
"""Bytes. A client with more unread output is disconnected; it reconnects and asks for the list."""

log = logging.getLogger(__name__)


class Client:
    """A connection of the node-agent, or of a command beside a task."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.lines = Lines()
        self.outbox = Outbox(connection)
        self.watches = False
        self.descriptors: list[int] = []
        """Received and not yet used; of a command beside an isolated attempt."""


class Server:
    """The server of the shepherd's socket.

    ``on_request(client, request)`` is called for each request of each client, ``on_gone(client)`` at its end.
    """

    def __init__(
        self,
        path: str,
        selector: selectors.BaseSelector,
        on_request: Callable[[Client, Request], None],
        on_gone: Callable[[Client], None],
    ) -> None:
        self._selector = selector
        self._on_request = on_request
        self._on_gone = on_gone
        self._clients: set[Client] = set()
        self._path = path
        with suppress(FileNotFoundError):
            os.unlink(path)  # noqa: PTH108
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(path)
        os.chmod(path, 0o600)  # noqa: PTH101
        self._listener.listen(64)
        self._listener.setblocking(False)
        selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def push(self, message: Reply) -> None:
        """Send a message to every client that watches."""
        watching = [client for client in self._clients if client.watches]
        if watching:
            data = pack(message)
            for client in watching:
                self._send(client, data)

    def reply(self, client: Client, message: Reply) -> None:
        self._send(client, pack(message))

    def close(self) -> None:
        """Drop all clients, and remove the socket."""
        for client in list(self._clients):
            self._drop(client)
        self._selector.unregister(self._listener)
        self._listener.close()
        with suppress(FileNotFoundError):
            os.unlink(self._path)  # noqa: PTH108

    def _accept(self, _: int) -> None:
        try:
            connection, _address = self._listener.accept()
        except OSError:
            return
        connection.setblocking(False)
        client = Client(connection)
        self._clients.add(client)
        self._selector.register(connection, selectors.EVENT_READ, lambda events: self._serve(client, events))

    def _serve(self, client: Client, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            self._send(client, b"")
        if events & selectors.EVENT_READ:
            try:
                data, received, *_ = socket.recv_fds(client.connection, READ, _DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
                client.descriptors += received
                messages = client.lines.feed(data)
            except BlockingIOError:
                return
            except (OSError, ValueError):
                data, messages = b"", []
            if not data:
                self._drop(client)
                return
            for message in messages:
                if (request := unpack_request(message)) is None:
                    log.warning("ignored an unknown message: %.200r", message)
                else:
                    self._on_request(client, request)

    def _send(self, client: Client, data: bytes) -> None:
        if client not in self._clients:
            return
        waited = len(client.outbox) > 0
        try:
            client.outbox.send(data)
        except OSError:
            self._drop(client)
            return
        waits = len(client.outbox) > 0
        if len(client.outbox) > _MOST_WAITING:
            self._drop(client)
        elif waits != waited:
            key = self._selector.get_key(client.connection)
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if waits else 0)
            self._selector.modify(client.connection, events, key.data)

    def _drop(self, client: Client) -> None:
        if client in self._clients:
            self._clients.remove(client)
            self._selector.unregister(client.connection)
            client.connection.close()
            for descriptor in client.descriptors:
                os.close(descriptor)
            client.descriptors.clear()
            self._on_gone(client)
