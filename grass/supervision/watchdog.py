"""Watchdog inside supervisord: kills a daemon that gives no sign of life; supervisord then restarts the daemon.

Daemons report to the watchdog as to systemd (`sd_notify(3)`, ``grass.system.systemd.Notifier``). Its environment
names a socket and a period. Each daemon's own loop sends ``WATCHDOG=1`` and the daemon's name. The same few lines of a
daemon therefore serve both kinds of clusters. A daemon joins by calling ``Notifier.beat``; this module has no list of
daemons. Loaded by supervisord, as its configuration says (``daemons``).

The watchdog also notes each daemon that ends without being told to, for the cluster's event log.

supervisord loads this module through its configuration (``rpcinterface``), in its own process: there is no extra daemon
and no thread. Nothing in this module may block. The master-agent detects a supervisord that hangs
(``supervisor_watch``).
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from supervisor import events

from grass.system import clock
from grass.system.environment import service_manager
from grass.system.systemd import DAEMON, SILENCE

TICK = 5.0
"""Seconds between two checks."""
_AWAY = 10.0
"""Limit for a late check, in seconds. Beyond it, the machine slept or supervisord got no CPU time; neither did daemons.
"""


class SignsOfLife:
    """Times of the daemons' last signs of life. A daemon is watched from its first sign on, and not before. Pure."""

    def __init__(self, limit: float = SILENCE) -> None:
        self._limit = limit
        self._heard: dict[str, tuple[int, float]] = {}
        self._looked: float | None = None

    def heard(self, name: str, pid: int, now: float) -> None:
        self._heard[name] = (pid, now)

    def overdue(self, pids: Mapping[str, int], now: float) -> list[str]:
        """Return the names of daemons that are silent for too long. ``pids``: pids of the daemons that run now."""
        late = 0.0 if self._looked is None else now - self._looked - TICK
        self._looked = now
        forgiven = late if late > _AWAY else 0.0
        self._heard = {
            name: (pid, last + forgiven) for name, (pid, last) in self._heard.items() if pids.get(name) == pid
        }
        return [name for name, (_, last) in self._heard.items() if now - last > self._limit]


class _Process(Protocol):
    """What is used of supervisor's ``Subprocess``. ``pid``: 0 while it does not run."""

    pid: int


class Watchdog:
    """Event handler for supervisord's loop.

    supervisord calls ``handle_read_event`` when a datagram came, and ``look`` every 5 s.
    """

    def __init__(self, supervisord: Any, path: str) -> None:
        self._supervisord = supervisord
        self._signs = SignsOfLife()
        self._statuses: dict[int, int] = {}
        self._hung: set[int] = set()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        with suppress(FileNotFoundError):
            Path(path).unlink()
        self._socket.bind(path)
        supervisord.options.get_socket_map()[self._socket.fileno()] = self
        events.subscribe(events.Tick5Event, self.look)
        events.subscribe(events.ProcessStateExitedEvent, self.note_end)
        self._reap, supervisord.options.waitpid = supervisord.options.waitpid, self.reap

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def handle_read_event(self) -> None:
        while True:
            try:
                words = self._socket.recv(4096).decode(errors="replace").split("\n")
            except BlockingIOError:
                return
            if "WATCHDOG=1" in words or "READY=1" in words:
                self._heard([word.removeprefix(DAEMON) for word in words if word.startswith(DAEMON)])

    def handle_error(self) -> None:
        self._supervisord.options.logger.error("the watchdog cannot read its socket")

    def look(self, _: object) -> None:
        processes = self._running()
        for name in self._signs.overdue({name: process.pid for name, process in processes.items()}, clock.steady()):
            pid = processes[name].pid
            self._supervisord.options.logger.critical(
                f"{name} (pid {pid}) gave no sign of life for {SILENCE:g} s; killing it, to start it again"
            )
            self._hung.add(pid)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def reap(self) -> tuple[int | None, int | None]:
        """Reap as supervisord does, and keep the status: its events do not name signals."""
        pid, status = self._reap()
        if pid:
            self._statuses = {pid: status}
        return pid, status

    def note_end(self, event: Any) -> None:
        """Note a daemon that ended without a request. Any: supervisor has no types."""
        from grass.supervision.daemon_ends import note
        from grass.wire.daemon_end import DaemonEnd

        pid = event.process.pid
        hung = pid in self._hung
        self._hung.discard(pid)
        code = os.waitstatus_to_exitcode(self._statuses.get(pid, 0))
        end = DaemonEnd(daemon=event.process.config.name, pid=pid, time=clock.wall(), code=code, hung=hung)
        with suppress(OSError):  # the disk is full, or the cluster's folder was removed
            note(Path(self._supervisord.options.configfile).parent, end)

    def _heard(self, names: list[str]) -> None:
        running = self._running()
        for name in names:
            if name in running:
                self._signs.heard(name, running[name].pid, clock.steady())

    def _running(self) -> dict[str, _Process]:
        groups = self._supervisord.process_groups.values()
        found = [process for group in groups for process in group.processes.values()]
        return {process.config.name: process for process in found if process.pid}


class _Nothing:
    """Empty RPC interface for remote callers."""


def attach(supervisord: Any) -> _Nothing:
    """Create the watchdog. supervisord's configuration names this factory.

    supervisord calls it once, before the start of any daemon.
    """
    address, _ = service_manager()
    if address:
        Watchdog(supervisord, address)
    return _Nothing()
