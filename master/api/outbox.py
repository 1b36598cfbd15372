"""The way of a reply to its socket, so that a peer that does not read costs no thread.

Used by the server as gunicorn's socket of one reply. What the socket does not take at once goes to the front,
whose event loop sends it; only a stream makes its thread wait.
"""

from __future__ import annotations

import select
import socket

LONGEST_UNSENT = 1024 * 1024
"""Bytes of a reply that is kept for a slow reader. A longer one is sent as a stream is."""


class Outbox:
    """``socket`` does not block. ``seconds``: how long it may take nothing, while somebody waits for it."""

    def __init__(self, sock: socket.socket, seconds: float) -> None:
        self._socket = sock
        self._seconds = seconds
        self._unsent = bytearray()
        self.stream = False
        """Each piece is sent before the next one is made."""

    def sendall(self, data: bytes) -> None:
        """Raises OSError, also TimeoutError."""
        self._unsent += data
        self._send()
        while self.stream and self._unsent:
            self._wait()
            self._send()

    def send(self, data: bytes) -> int:
        """As ``sendall``: gunicorn answers ``Expect: 100-continue`` with it."""
        self.sendall(data)
        return len(data)

    def take_unsent(self) -> bytes:
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
