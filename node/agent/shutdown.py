"""Shutdown of the machine: the node-agent says so first, then stops all tasks, reports their ends and ends itself.

systemd stops the node-agent before the shepherd, the container engine, the share and the network (the order in its
unit). At any other stop of the node-agent tasks run on.

Before an eviction (``eviction``), the node-agent does the same, but stays until the machine is gone. Used by ``loop``
and ``node.agent``.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Collection

from grass.model.reasons import Reason, ReasonCode
from node.runtime.protocol import Stop

LONGEST_GRACE = 15.0
"""Seconds between TERM and KILL, at most: all has to end within `TimeoutStopSec` of the unit."""
EVICTION_GRACE = 20.0
"""The same before an eviction, which clouds announce 30 s before, or later."""
TELL = 2.0
"""Seconds for the news to reach the master, before tasks are stopped that it would otherwise start here again."""
LONGEST = TELL + LONGEST_GRACE + 5.0
"""Seconds after which the node-agent ends in any case."""
BLOCKED = Reason(ReasonCode.SHUTDOWN, "the machine shuts down")
STOPPED = Reason(ReasonCode.NODE_STOPPED, "its node was shut down while it ran")
_STATES = (("systemctl", "is-system-running"), ("systemctl", "--user", "is-system-running"))
_SECONDS = 2.0


def machine_shuts_down() -> bool:
    """Ask systemd whether the machine, or the session manager of this user, is shutting down."""
    return shutil.which("systemctl") is not None and any(_state(command) == "stopping" for command in _STATES)


def _state(command: tuple[str, ...]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


class Shutdown:
    """The way of a node-agent out: nothing begun, telling the master, or waiting for its tasks to end.

    Times are steady seconds.
    """

    def __init__(self) -> None:
        self._began: float | None = None
        self.evicted = ""
        """Why the cloud takes the machine back; empty: it shuts down."""
        self._awaited: frozenset[str] | None = None
        """Attempts that were stopped; None: not yet."""

    @property
    def begun(self) -> bool:
        return self._began is not None

    @property
    def reason(self) -> Reason | None:
        """Return why nothing may start."""
        if self._began is None:
            return None
        return Reason(ReasonCode.SHUTDOWN, self.evicted) if self.evicted else BLOCKED

    def begin(self, now: float, evicted: str = "") -> None:
        self._began, self.evicted = now, evicted

    def due(self) -> float | None:
        """Return the time of the next step, if nothing happens before."""
        if self._began is None or (self.evicted and self._awaited is not None):
            return None
        return self._began + (TELL if self._awaited is None else LONGEST)

    def stops(self, now: float, running: Collection[str], told: bool, grace: Callable[[str], float]) -> list[Stop]:
        """Return what to stop, once: when the master was ``told``, or after ``TELL``. ``grace``: that of an attempt."""
        if self._began is None or self._awaited is not None or not (told or now >= self._began + TELL):
            return []
        self._awaited = frozenset(running)
        if self.evicted:
            reason = Reason(ReasonCode.NODE_STOPPED, f"stopped because {self.evicted}")
            return [Stop(key, min(grace(key), EVICTION_GRACE), reason) for key in running]
        return [Stop(key, min(grace(key), LONGEST_GRACE), STOPPED) for key in running]

    def over(self, now: float, running: Collection[str]) -> bool:
        """Return whether all that was stopped has ended, or the time is up."""
        if self._began is None or self.evicted:
            return False
        return now >= self._began + LONGEST or (self._awaited is not None and self._awaited.isdisjoint(running))
