"""Housekeeping of the shepherd, whose loop calls it about once a second while tasks run or have just ended.

It kills what left the group of an ended attempt. It must not touch processes of attempts that run. Used by
``shepherd``.
"""

from __future__ import annotations

import os

from grass.system import clock
from node.runtime import proc
from node.runtime.adoption import MARK
from node.runtime.attempts import Attempt, Folders
from node.runtime.endings import Endings
from node.runtime.guard import Keeper
from node.runtime.journal import Journal

YOUNG = 60.0
"""Seconds. A younger process that does not show its attempt is checked again."""


class Upkeep:
    """Call ``round`` in the thread of the shepherd's loop."""

    def __init__(
        self,
        attempts: dict[str, Attempt],
        endings: Endings,
        journal: Journal,
        folders: Folders,
        keeper: Keeper,
    ) -> None:
        self._attempts = attempts
        self._endings = endings
        self._journal = journal
        self._folders = folders
        self._keeper = keeper

    def round(self) -> bool:
        """Do one round. Return whether another one is needed even if nothing happens."""
        mains, memory = self._endings.mains, self._endings.memory
        self._endings.look_at_memory()
        running = {attempt.key for attempt in mains.values()}
        memory.release(memory.owners - running)
        memory.kept.expire(running)
        for key in self._endings.segments.owners - running:
            self._endings.segments.release(key)
        strays = self._end_strays()
        self._journal.flush()
        self._journal.sync()
        if self._journal.long:
            self._journal.rewrite(self._attempts.values())
        return strays or bool(mains) or bool(memory.kept)

    def _end_strays(self) -> bool:
        """Kill processes that left the group of an ended attempt. Return whether there may be more.

        Orphans of this shepherd's tasks are its children, because it is a subreaper. Those of earlier shepherds' tasks
        are children of the guard.
        """
        mine = set(proc.children(os.getpid())) - self._endings.mains.keys()
        guards = set(self._keeper.children()) - self._endings.mains.keys() - {os.getpid()}
        more = bool(guards)
        for pid in mine | guards:
            stat = proc.stat(pid)
            if stat is None or stat.state in "ZX":
                if pid in guards:
                    self._keeper.reap(pid)
            elif self._has_ended(proc.environment(pid, MARK)):
                proc.kill(pid)
                more = True
            elif clock.steady() - stat.start < YOUNG and proc.between_programs(pid):
                more = True
        return more

    def _has_ended(self, scratch: str | None) -> bool:
        key = self._folders.key_of(scratch or "")
        attempt = self._attempts.get(key) if key else None
        return key is not None and (attempt is None or attempt.ended is not None)
