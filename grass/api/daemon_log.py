"""The log of a daemon: on standard error as usual, and sent to the collector, so that `grass cluster logs` shows it.

The daemon never waits for the collector. Entries pass through a bounded queue to a thread, which sends them with
fluent-logger. While the collector is away, the queue fills; later entries are dropped and counted. What the collector
had received but not stored when it was killed is lost as well. Standard error has everything. Used by ``master`` and
``node``.
"""

from __future__ import annotations

import logging
import os
import queue
import socket
import sys
import threading
from types import TracebackType

from fluent.sender import FluentSender

from grass import __version__
from grass.api import collector_link
from grass.api.collector_link import Address
from grass.api.daemon_entry import FORMAT, entry_of
from grass.backoff import Backoff
from grass.config import ClusterConfig
from grass.wire.codec import builtins
from grass.wire.daemon_line import DaemonEntry, tag_of

MOST_WAITING = 1000
"""Entries in the queue."""
FIRST_BACKOFF = 0.1
LAST_BACKOFF = 5.0
SEND_SECONDS = 3.0
FLUSH_SECONDS = 0.5
"""How long the end of a daemon waits for its last entries, if the collector took the ones before."""


log = logging.getLogger(__name__)


def start_node_log(config: ClusterConfig, node: str, daemon: str, key: str) -> None:
    """Log as a daemon of this node. ``key``: what the node and the collector share. Call it after a fork."""
    _start(daemon, Shipping(tag_of(node, daemon), collector_link.collector_address(config), node, key))


def start_master_log(config: ClusterConfig, daemon: str) -> None:
    """Log as a daemon of the master. Only the master's own machine has the collector's socket. Call it after a fork."""
    _start(daemon, Shipping(tag_of(None, daemon), str(config.socket("collector"))))


def _start(daemon: str, shipping: Shipping) -> None:
    logging.basicConfig(level=logging.INFO, format=FORMAT)
    for logger in ("", "gunicorn.error"):  # gunicorn's passes nothing on to the root
        logging.getLogger(logger).addHandler(shipping)
    sys.excepthook = _log_failure
    log.info("%s started, version %s, process %d", daemon, __version__, os.getpid())


def _log_failure(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:  # called when nothing caught the error: the daemon ends
    log.critical("the daemon failed", exc_info=(kind, error, trace))


class Shipping(logging.Handler):
    """Sends entries to the collector at ``address``. ``name``, ``key``: of this node, if the
    collector asks for them."""

    def __init__(self, tag: str, address: Address, name: str = "", key: str = "", most: int = MOST_WAITING) -> None:
        super().__init__()
        self.dropped = 0
        """Entries since the last that was sent."""
        self._most = most
        self._sender = _Sender(tag, address, name, key)
        self._waiting: queue.SimpleQueue[DaemonEntry | None] = queue.SimpleQueue()  # its put may interrupt its put
        self._ending = threading.Event()
        self._refused = True
        self._backoff = Backoff(FIRST_BACKOFF, LAST_BACKOFF)
        self._thread = threading.Thread(target=self._run, name="daemon-log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        if self._waiting.qsize() >= self._most:
            self.dropped += 1
            return
        try:
            self._waiting.put(entry_of(record))
        except Exception:  # noqa: BLE001 (whatever an argument of the message raises)
            self.handleError(record)

    def close(self) -> None:
        """Send what waits, if the collector takes it; wait at most ``FLUSH_SECONDS``."""
        self._waiting.put(None)
        if not self._refused:
            self._thread.join(FLUSH_SECONDS)
        self._ending.set()
        super().close()

    def _run(self) -> None:
        while (entry := self._waiting.get()) is not None:
            self._deliver(entry)
            if self.dropped and not self._ending.is_set():
                dropped, self.dropped = self.dropped, 0
                text = f"{dropped} entries of this log were dropped while the collector was away"
                self._deliver(DaemonEntry(entry.time, "WARNING", text))
        self._sender.close()

    def _deliver(self, entry: DaemonEntry) -> None:
        """Send until it works, or the daemon ends."""
        while not self._ending.is_set():
            if self._sends(entry):
                self._refused = False
                self._backoff.reset()
                return
            self._sender.pendings = None  # a new connection begins with whole entries: this one, again
            self._refused = True
            self._ending.wait(self._backoff.next())

    def _sends(self, entry: DaemonEntry) -> bool:
        try:
            return bool(self._sender.emit_with_time(None, int(entry.time), builtins(entry)))
        except Exception:  # noqa: BLE001 (whatever happens here, the daemon goes on)
            return False


class _Sender(FluentSender):  # type: ignore[misc]
    """fluent-logger's sender, with the handshake that the collector wants from nodes."""

    def __init__(self, tag: str, address: Address, name: str, key: str) -> None:
        super().__init__(tag, timeout=SEND_SECONDS, msgpack_kwargs={"unicode_errors": "surrogateescape"})
        self._address = address
        self._name = name
        self._key = key

    def _reconnect(self) -> None:
        if not self.socket:
            connection = collector_link.connect(self._address, self._name, self._key)
            connection.settimeout(SEND_SECONDS)
            self.socket: socket.socket | None = connection
