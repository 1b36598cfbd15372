"""Attempts that are told that they will be stopped, so that they can save their work first.

Each gets a line in the file that ``GRASS_EVENTS`` names, and the signal or the command of its component. It is stopped
once it says that it is done, its command has ended, or its time is over. Used by ``loop``.
"""

from __future__ import annotations

import logging
import select
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from grass.errors import GrassError, UndecodableError
from grass.model.job import Notice
from grass.node_config import NodeHome
from grass.system import clock
from grass.system.atomic_file import replace_file
from grass.wire.codec import encode
from grass.wire.keys import AttemptKey
from grass.wire.task_notice import TASK_NOTICE, TaskNotice
from node.agent import environment
from node.membership.files import open_folder
from node.membership.paths import events_file
from node.runtime.kind import Execution
from node.runtime.protocol import Stop
from node.runtime.registry import execute
from node.runtime.timers import Timers

_LOOK = 0.5
"""Seconds between looks at whether a command may go on."""

log = logging.getLogger(__name__)


class Given(NamedTuple):
    """A notice that goes on. ``stop``: what follows; ``until``: steady time."""

    stop: Stop
    until: float


class Notices:
    """The notices of one node, for the loop. ``over`` is called in the loop with the attempt that is to be stopped now.
    ``done``: puts the key of an attempt whose command has ended into the inbox."""

    def __init__(
        self, config: NodeHome, timers: Timers, over: Callable[[Stop], None], done: Callable[[str], None]
    ) -> None:
        self._config = config
        self._timers = timers
        self._over = over
        self._done = done
        self._given: dict[str, Given] = {}

    def give(self, stop: Stop, why: str, notice: Notice, pid: int | None) -> None:
        """Tell an attempt that it will be stopped. ``pid``: its first process; None: it is in a container, where that
        is 1."""
        key = stop.key
        if key in self._given:
            return
        path, now = Path(events_file(self._config, AttemptKey.parse(key))), clock.wall()
        known = _last(path)
        left = notice.seconds if known is None else max(0.0, min(notice.seconds, known.until - now))
        self._given[key] = Given(stop, clock.steady() + left)
        self._timers.at(self._given[key].until, lambda: self.finish(key))
        if known is None:
            try:
                open_folder(path.parent, self._config)
                text = encode(TaskNotice(event="leave", reason=why, until=now + left)) + "\n"
                replace_file(path, text, mode=0o644)  # a full disk, or a kill, leaves no half line
            except OSError as error:
                log.warning("attempt %s: its notice cannot be written: %s", key, error)
        if known is None or notice.command is not None:
            commands = [] if known is not None or notice.signal is None else [_kill(notice.signal.value, pid)]
            threading.Thread(target=self._tell, args=(key, commands, notice), name="notice", daemon=True).start()

    def finish(self, key: str) -> None:
        """Stop an attempt that is done, or whose time is over."""
        if (given := self._given.pop(key, None)) is not None:
            self._over(given.stop)

    def drop(self, key: str) -> None:
        """Forget an attempt: it has ended, or is stopped at once."""
        self._given.pop(key, None)

    def _tell(self, key: str, signals: list[list[str]], notice: Notice) -> None:
        """Send the signal, then run the command, whose end means that it is done. In a thread."""
        for argv in signals:
            self._run(key, argv)
        if notice.command is not None:
            self._run(key, environment.argv(notice.command))
            self._done(key)

    def _run(self, key: str, argv: list[str]) -> None:
        try:
            running = execute(self._config, key, argv, None)
        except GrassError as error:
            log.warning("attempt %s: it cannot be told that it is stopped: %s", key, error)
            return
        try:
            running.end_input()
            self._follow(key, running)
        finally:
            running.end()

    def _follow(self, key: str, running: Execution) -> None:
        """Read what a command prints until it ends, or the attempt is stopped."""
        while key in self._given:
            descriptors = running.descriptors()
            ready, _, _ = select.select(descriptors, [], [], _LOOK)
            for descriptor in ready:
                if running.read(descriptor) is None:
                    code = running.code()
                    log.log(
                        logging.WARNING if code else logging.INFO, "attempt %s: its notice ended with %d", key, code
                    )
                    return


def _kill(signal: str, pid: int | None) -> list[str]:
    return ["/bin/sh", "-c", f"kill -s {signal} {1 if pid is None else pid}"]


def _last(path: Path) -> TaskNotice | None:
    """Return the notice that an earlier agent gave. None: there is none, or the task has overwritten it."""
    try:
        return TASK_NOTICE.decode(path.read_text())
    except (OSError, ValueError, UndecodableError):
        return None
