"""Sends one reply to its socket, so that a peer that does not read costs no thread.

The server passes it to gunicorn as the socket of a reply. What the socket does not accept at once is handed to the
front, whose event loop sends it. Only a stream blocks its thread. Used by ``worker``.
"""

from __future__ import annotations

import select
import socket

LONGEST_UNSENT = 1024 * 1024
"""Bytes of a reply that are buffered for a slow reader. A longer reply is sent like a stream."""


class Outbox:
    """The unsent part of one reply.

    ``sock``: non-blocking. ``seconds``: how long a stream's peer may read nothing.
    """

    def __init__(self, sock: socket.socket, seconds: float) -> None:
        self._socket = sock
        self._seconds = seconds
        self._unsent = bytearray()
        self.stream = False
        """Whether each piece must be sent before the next one is made."""

    def sendall(self, data: bytes) -> None:
        """Buffer the data. gunicorn passes the head of a reply and each piece separately."""
        self._unsent += data

    def send(self, data: bytes) -> int:
        """Send at once; gunicorn uses it to answer ``Expect: 100-continue``."""
        self.sendall(data)
        self.flush()
        return len(data)

    def flush(self) -> None:
        """Send what is buffered, so that the peer wakes up once for it. Raises OSError, also TimeoutError."""
        self._send()
        while self.stream and self._unsent:
            self._wait()
            self._send()

    def take_unsent(self) -> bytes:
        """Return what was buffered, and forget it."""
        unsent, self._unsent = bytes(self._unsent), bytearray()
        return unsent

    def _send(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: self._socket.send(self._unsent)]
        except BlockingIOError:
            return

    def _wait(self) -> None:
        poll = select.poll()
        poll.register(self._socket, select.POLLOUT)
        if not poll.poll(self._seconds * 1000):
            raise TimeoutError("the peer does not read its reply")
