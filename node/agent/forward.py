"""The sending side of fluentd's forward protocol v1, with acknowledgements. Used by the shipper's thread only.

The package fluent-logger does not suffice: its ``FluentSender`` knows Message mode only, asks for no acknowledgement,
treats a successful ``send`` as delivery, and drops its buffer when that exceeds ``bufmax``. A collector that is killed
between our ``send`` and its ``write`` would lose lines. This module uses Forward mode with the option ``chunk`` in
every message; a block counts as delivered only when its ``ack`` has arrived. ``grass.api.collector_link`` connects.
"""

from __future__ import annotations

import base64
import logging
import os
import select
import socket
from collections.abc import Iterable
from contextlib import suppress

import msgpack

from grass.api.collector_link import Address, connect
from grass.backoff import Backoff
from grass.errors import CertificateError
from grass.system import clock
from grass.wire.codec import builtins
from grass.wire.log_block import LogBlock

ACK_TIMEOUT = 30.0
"""Seconds without progress until the connection is closed: a disk may stall for long, and sending again costs more."""
FIRST_BACKOFF = 0.02
LAST_BACKOFF = 0.5
_REPLY_LIMIT = 1 << 20

log = logging.getLogger(__name__)


class Link:
    """One connection to the collector, reopened automatically.

    ``address``: the path of a unix socket, or host and port. ``stop``: a descriptor; once it is readable, an
    exchange gives up. ``name``, ``key``: of this node, for a collector that asks for them.
    """

    def __init__(self, address: Address, stop: int, name: str = "", key: str = "") -> None:
        self._address = address
        self._stop = stop
        self._name = name
        self._key = key
        self._socket: socket.socket | None = None
        self._backoff = Backoff(FIRST_BACKOFF, LAST_BACKOFF)
        self._failures = 0
        self._chunk = 0
        self.retry_at = 0.0
        """Steady time of the next attempt to connect."""

    def connected(self) -> bool:
        """Return whether a batch can be sent now. Connects if the next attempt is due."""
        if self._socket is not None:
            return True
        if clock.steady() < self.retry_at:
            return False
        try:
            self._socket = connect(self._address, self._name, self._key, self._stop)
            self._socket.setblocking(False)
        except (OSError, CertificateError) as error:
            self._failed(f"the log collector at {self._address} does not answer ({error}); logs wait on this node")
        return self._socket is not None

    def exchange(self, batch: Iterable[tuple[str, list[LogBlock]]]) -> bool:
        """Send records by tag and wait for all acknowledgements. False: some or all may not have arrived."""
        assert self._socket is not None
        try:
            self._send(self._socket, batch)
        except InterruptedError:
            self.close()
            return False
        except (OSError, ValueError, msgpack.UnpackException) as error:
            self._failed(
                f"the log collector did not accept a batch ({error or type(error).__name__}); it is sent again"
            )
            return False
        if self._failures:
            log.info("the log collector answers again")
        self._backoff.reset()
        self._failures = 0
        return True

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _failed(self, message: str) -> None:
        self.close()
        log.log(logging.WARNING if self._failures == 0 else logging.DEBUG, "%s", message)
        wait = self._backoff.next()
        self.retry_at = clock.steady() + (wait if self._failures else 0.0)
        self._failures += 1

    def _pack(self, batch: Iterable[tuple[str, list[LogBlock]]]) -> tuple[memoryview, set[str]]:
        packer = msgpack.Packer(autoreset=False, default=builtins)
        waiting = set()
        now = int(clock.wall())
        for tag, records in batch:
            self._chunk += 1
            chunk = base64.b64encode(self._chunk.to_bytes(16, "big")).decode()
            packer.pack([tag, [[now, record] for record in records], {"chunk": chunk, "size": len(records)}])
            waiting.add(chunk)
        return memoryview(packer.bytes()), waiting

    def _send(self, connection: socket.socket, batch: Iterable[tuple[str, list[LogBlock]]]) -> None:
        # Acknowledgements are read while sending: a peer whose replies are not read would stop reading, too.
        unsent, waiting = self._pack(batch)
        replies = msgpack.Unpacker(max_buffer_size=_REPLY_LIMIT)
        poll = select.poll()
        poll.register(self._stop, select.POLLIN)
        while unsent or waiting:
            poll.register(connection, select.POLLIN | (select.POLLOUT if unsent else 0))
            events = dict(poll.poll(ACK_TIMEOUT * 1000))
            if not events:
                raise TimeoutError(f"no acknowledgement for {ACK_TIMEOUT:.0f} s")
            if self._stop in events:
                raise InterruptedError("stopping")
            event = events[connection.fileno()]
            with suppress(BlockingIOError):  # what arrived was TLS's own
                if event & ~select.POLLOUT:
                    received = connection.recv(65536)
                    if not received:
                        raise ConnectionResetError("connection closed by the collector")
                    replies.feed(received)
                    waiting.difference_update(_acks(replies))
            with suppress(BlockingIOError):
                if unsent and event & select.POLLOUT:
                    unsent = unsent[connection.send(unsent) :]


def _acks(replies: Iterable[object]) -> list[str]:
    return [reply["ack"] for reply in replies if isinstance(reply, dict) and isinstance(reply.get("ack"), str)]


class Signal:
    """A wake-up between threads that ``poll`` can wait for."""

    def __init__(self) -> None:
        self.descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def set(self) -> None:
        os.eventfd_write(self.descriptor, 1)

    def wait(self, seconds: float | None) -> None:
        """Wait until ``set``, at most ``seconds``, and reset the signal."""
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        if poll.poll(None if seconds is None else max(0.0, seconds) * 1000):
            os.eventfd_read(self.descriptor)

    def close(self) -> None:
        os.close(self.descriptor)
