"""Finds tasks that left the membership and in which no launcher runs a command any more, so that they end at once.

Their own command only waits (``sleep infinity``), and does not see that it is not needed. Called by the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from grass.model.program import first_program
from grass.system import clock
from grass.wire.keys import AttemptKey
from grass.wire.launch import LaunchTemplate
from node.runtime.timers import Timers

LOOK_AGAIN = 0.2
"""Seconds between looks while a launcher still runs a command in a task that left."""


class IdleHosts:
    """Looks for tasks that left and have nothing to do any more.

    ``running``: the attempts that run, with their templates; looked at each time. ``released``: whether an attempt
    was a member and is none any more. ``used``: attempts in which a launcher runs a command. ``idle`` is called once
    with each attempt that is found.
    """

    def __init__(
        self,
        timers: Timers,
        running: Callable[[], Mapping[str, LaunchTemplate | None]],
        released: Callable[[AttemptKey], bool],
        used: Callable[[], Collection[str]],
        idle: Callable[[str], None],
    ) -> None:
        self._timers = timers
        self._running = running
        self._released = released
        self._used = used
        self._idle = idle
        self._found: set[str] = set()
        self._again = False
        """A later look is due."""

    def look(self) -> None:
        """Look now, and again while a launcher still runs a command in a task that left."""
        running = self._running()
        self._found &= running.keys()
        hosts = [key for key, template in running.items() if key not in self._found and _is_host(template)]
        left = [key for key in hosts if self._released(AttemptKey.parse(key))]
        used = self._used() if left else ()
        for key in left:
            if key not in used:
                self._found.add(key)
                self._idle(key)
        if not self._again and any(key in used for key in left):
            self._again = True
            self._timers.at(clock.steady() + LOOK_AGAIN, self._look_again)

    def _look_again(self) -> None:
        self._again = False
        self.look()


def _is_host(template: LaunchTemplate | None) -> bool:
    """Return whether launchers start their programs in the attempt, and it is not a launcher itself."""
    framework = template.component.framework if template else None
    if template is None or framework is None or not framework.kind.over_ssh:
        return False
    return first_program(template.component.command) not in framework.kind.launchers
