"""What a daemon says to its supervisor: READY, and that it is alive (`sd_notify(3)`).

systemd listens on hosts, ``grass.provision.watchdog`` in the supervisord of a local cluster. Silent elsewhere.
"""

from __future__ import annotations

import socket
from contextlib import suppress

from grass import clock
from grass.environment import service_manager, supervised_by

_SHARE_OF_PATIENCE = 3
"""Signs of life per watchdog period."""


SILENCE = 40.0
"""Seconds without a sign of life after which a daemon is killed and started again; `WatchdogSec` of the units."""
DAEMON = "X_GRASS_DAEMON="
"""Before the name of the daemon in what supervisord is told; systemd knows its services by their processes."""


class Notifier:
    """``beat`` is for the daemon's own loop, at every turn: it sends seldom, and a loop that hangs sends nothing."""

    def __init__(self) -> None:
        self._address, patience = service_manager()
        self._pause = patience / _SHARE_OF_PATIENCE if patience else None
        self._next = 0.0
        name = supervised_by()[1]
        self._signature = f"\n{DAEMON}{name}".encode() if name else b""

    @property
    def pause(self) -> float | None:
        """Seconds within which ``beat`` wants to be called; None: nobody listens."""
        return self._pause if self._address else None

    def ready(self) -> None:
        """What the daemon is for can be had from now on."""
        self._send(b"READY=1")

    def beat(self) -> None:
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
            # never waits: a supervisor that hangs must not make its daemons hang
            sender.sendto(text + self._signature, socket.MSG_DONTWAIT, address)
