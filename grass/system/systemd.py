"""Messages of a daemon to its supervisor: READY and signs of life (`sd_notify(3)`). Used by every daemon.

The receiver is systemd on hosts, and ``grass.supervision.watchdog`` in the supervisord of a local cluster. Without a
receiver, nothing is sent.
"""

from __future__ import annotations

import socket
from contextlib import suppress

from grass.system import clock
from grass.system.environment import service_manager, supervised_by

_SHARE_OF_PATIENCE = 3
"""Signs of life per watchdog period."""


SILENCE = 40.0
"""Seconds without a sign of life after which a daemon is killed and restarted; `WatchdogSec` of the units."""
DAEMON = "X_GRASS_DAEMON="
"""Prefix of the daemon's name in messages to supervisord; systemd identifies its services by their processes."""


class Notifier:
    """Sends messages. The daemon's loop calls ``beat`` at every turn, so a loop that hangs sends no signs of life."""

    def __init__(self) -> None:
        self._address, patience = service_manager()
        self._pause = patience / _SHARE_OF_PATIENCE if patience else None
        self._next = 0.0
        name = supervised_by()[1]
        self._signature = f"\n{DAEMON}{name}".encode() if name else b""

    @property
    def pause(self) -> float | None:
        """Return the longest seconds between calls of ``beat``; None: there is no receiver."""
        return self._pause if self._address else None

    def ready(self) -> None:
        """Report that the daemon is ready for its work."""
        self._send(b"READY=1")

    def beat(self) -> None:
        """Send a sign of life if one is due."""
        if self._pause is None:
            return
        now = clock.steady()
        if now >= self._next:
            self._next = now + self._pause
            self._send(b"WATCHDOG=1")

    def _send(self, text: bytes) -> None:
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            # never blocks: a supervisor that hangs must not block its daemons
            sender.sendto(text + self._signature, socket.MSG_DONTWAIT, address)
