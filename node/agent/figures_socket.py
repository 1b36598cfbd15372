"""Takes the figures that tasks send to the node, so that they do not fill their logs. Used by ``this_machine``.

``grass.report`` sends one datagram each time: the key of its attempt, a newline, and the line that it would print
otherwise. The socket is for processes of the node's own account: isolated tasks and containers print their figures.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from grass.errors import UndecodableError
from grass.system import clock
from grass.wire.keys import AttemptKey

MOST_BYTES = 8192
"""Bytes of one report. What is longer is cut."""
WINDOW = 0.1
MOST_IN_WINDOW = 500
"""Reports that are taken in ``WINDOW`` seconds: a tenth of a core. A program that reports more often waits."""
log = logging.getLogger("grass.figures")


class FiguresSocket:
    """The socket. ``has_files``: says whether the node has an attempt of this key. ``found``: is called with the key of
    an attempt, its line, and the time."""

    def __init__(
        self, path: Path, has_files: Callable[[str], bool], found: Callable[[str, str, float], object]
    ) -> None:
        self._path = path
        self._has_files = has_files
        self._found = found
        self._socket: socket.socket | None = None

    def start(self) -> None:
        """Listen. Without the socket, tasks print their figures."""
        try:
            self._path.unlink(missing_ok=True)
            listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            listening.bind(str(self._path))
            self._path.chmod(0o600)
        except OSError as error:
            log.warning("%s: %s; tasks print their figures", self._path, error)
            return
        self._socket = listening
        threading.Thread(target=self._run, args=(listening,), name="figures", daemon=True).start()

    def stop(self) -> None:
        if self._socket is not None:
            self._path.unlink(missing_ok=True)
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            self._socket = None

    def _run(self, listening: socket.socket) -> None:
        begun, taken = clock.steady(), 0
        with listening:
            while self._socket is listening:
                if taken == MOST_IN_WINDOW:
                    clock.sleep(max(0.0, begun + WINDOW - clock.steady()))
                if clock.steady() - begun >= WINDOW:
                    begun, taken = clock.steady(), 0
                taken += 1
                try:
                    report = listening.recv(MOST_BYTES)
                except OSError as error:
                    log.warning("%s: %s; tasks print their figures from now on", self._path, error)
                    return
                self._take(report)

    def _take(self, report: bytes) -> None:
        key, _, line = report.decode(errors="replace").partition("\n")
        with suppress(UndecodableError):
            if line and self._has_files(str(AttemptKey.parse(key))):
                self._found(key, f"{line}\n", clock.wall())


def has_files(output: Callable[[str, str], str]) -> Callable[[str], bool]:
    """Return whether an attempt has a file for its output. ``output``: its path, by key and stream."""
    return lambda key: os.path.exists(output(key, "stdout"))  # noqa: PTH110 # at each report
