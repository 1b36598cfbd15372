"""Mends views while tasks run in them, in a process of its own, because that may wait for the share.

Used by ``tasks``.
"""

from __future__ import annotations

import json
import logging
import os

from grass.system import clock
from node.runtime import proc
from node.runtime.isolation import processes
from node.runtime.isolation.mount_namespaces import MountNamespaces

_AGAIN = 2.0
"""Seconds after which views are mended again if that failed, as it does until the share is back."""
_AT_MOST = 60.0
"""Seconds after which the process is killed: its share hangs."""

log = logging.getLogger(__name__)


class Mending:
    """At most one process at a time. ``lock``: descriptor of the shepherd's lock, which the process must not hold."""

    def __init__(self, namespaces: MountNamespaces, lock: int) -> None:
        self._namespaces = namespaces
        self._lock = lock
        self._pid: int | None = None
        self._said = -1
        """A file in memory, to which the process writes what does not exist any more."""
        self._since = -_AGAIN
        self._torn: list[str] = []

    def look(self) -> None:
        """Begin to mend what is torn. To be called often."""
        now = clock.steady()
        if self._pid is not None:
            if now > self._since + _AT_MOST:
                proc.kill(self._pid)
            return
        if now < self._since + _AGAIN:
            return
        torn = self._namespaces.torn()
        if torn and torn != self._torn:
            log.warning("views of these jobs have lost the share, and are mended: %s", ", ".join(torn))
        self._torn = torn
        if not torn:
            return
        self._since = now
        self._said = os.memfd_create("mended")
        try:
            self._pid = processes.aside(self._work, [self._lock])
        except OSError:
            os.close(self._said)

    def _work(self) -> None:
        gone = self._namespaces.mend(self._torn)
        os.write(self._said, json.dumps(gone).encode())

    def reaped(self, pid: int, status: int) -> None:
        """Take the end of a child of the shepherd. ``status``: as from wait()."""
        if pid != self._pid:
            return
        self._pid = None
        said = os.pread(self._said, os.fstat(self._said).st_size, 0)
        os.close(self._said)
        if status == 0:
            self._namespaces.give_up(json.loads(said))
