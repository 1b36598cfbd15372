"""Adoption of the attempts in the journal of an earlier shepherd: nothing is lost, nothing runs twice.

Called once by the shepherd, before it takes messages. Afterwards an attempt is one of: ended; running and watched
through a pidfd; its first process ended while others of its group run; or left out because it was never spawned. The
node-agent asks for the last kind again. Used by ``endings``, ``shepherd`` and ``upkeep``.
"""

from __future__ import annotations

import os
from enum import Enum

from grass.model.exhaustive import assert_never
from grass.model.reasons import Reason, ReasonCode
from grass.system import clock
from node.runtime import proc
from node.runtime.attempts import Attempt, Folders
from node.runtime.guard import Keeper
from node.runtime.journal import Past

MARK = "GRASS_SCRATCH"
"""Environment variable of each process of an attempt; its value identifies the attempt."""

_ROUNDING = 0.02
"""Seconds of tolerance: start times in /proc have steps of 10 ms."""
_EXEC_TIMEOUT = 5.0


def adopt(past: Past, keeper: Keeper, boot_id: str, folders: Folders, *, isolated: bool = False) -> dict[str, Attempt]:
    """``isolated``: users are. The earlier shepherd then had children of root, too, and no task is one of them."""
    if past.boot_id != boot_id:
        for attempt in past.attempts.values():
            _after_reboot(attempt)
        return past.attempts
    kept = {key: attempt for key, attempt in past.attempts.items() if not _intended(attempt)}
    intended = [attempt for attempt in past.attempts.values() if _intended(attempt)]
    for attempt in kept.values():
        _find(attempt)
    mains = {attempt.pid: attempt for attempt in kept.values()}
    children = set(keeper.children()) - {os.getpid()}
    orphans = {pid for pid in children if pid not in mains or not _is_main(pid, mains[pid])}
    for pid in children - orphans:
        if mains[pid].ended is not None:
            keeper.reap(pid)  # left, it would be taken for a start once nobody knows its attempt any more
    if intended:
        # One attempt is spawned at a time; earlier shepherds resolved older intents without a pid.
        last = intended[-1]
        if isolated:
            orphans = {pid for pid in orphans if proc.owner(pid) != 0}
        if _search(last, orphans if past.guard == keeper.guard else None, folders):
            kept[last.key] = last
    return kept


def _intended(attempt: Attempt) -> bool:
    return attempt.pid is None and attempt.ended is None


def _after_reboot(attempt: Attempt) -> None:
    if attempt.ended is None:
        attempt.ended = attempt.main_ended or clock.wall()
        if attempt.main_ended is None:
            message = "the node was rebooted while it ran"
            attempt.reason = Reason(ReasonCode.NODE_REBOOTED, message).to_wire()


def _find(attempt: Attempt) -> None:
    """Open a pidfd of its first process if that still exists, running or zombie."""
    if attempt.ended is not None or attempt.main_ended is not None or attempt.pid is None:
        return
    try:
        pidfd = os.pidfd_open(attempt.pid)
    except OSError:
        return
    if _is_main(attempt.pid, attempt):  # the process of the pidfd, unless it was reaped in between
        attempt.pidfd = pidfd
    else:
        os.close(pidfd)


def _is_main(pid: int, attempt: Attempt) -> bool:
    """Return whether the process with this pid, running or zombie, is the one that began with the attempt."""
    stat = proc.stat(pid)
    return stat is not None and attempt.began - _ROUNDING <= stat.start <= attempt.returned + _ROUNDING


def _search(attempt: Attempt, orphans: set[int] | None, folders: Folders) -> bool:
    """Return whether an attempt without a recorded pid was spawned, or may have been. Sets its pid if that is found.

    ``orphans`` None: the guard was replaced, so the process may have ended without a trace.
    """
    scratch = folders.scratch(attempt.key)
    among = proc.processes() if orphans is None else sorted(orphans)
    zombies = []
    for pid in among:
        match _role(pid, scratch, patient=orphans is not None):
            case _Role.MAIN:
                return _take(attempt, pid)
            case _Role.ZOMBIE:
                zombies.append(pid)
            case _Role.OTHER:
                pass
            case role:
                assert_never(role)
    if orphans is None:
        _unknown(attempt)
        return True
    if len(zombies) > 1:
        _unknown(attempt)
    # the guard keeps every ended process; without one, the attempt was never spawned
    return bool(zombies) and (attempt.reason is not None or _take(attempt, zombies[0]))


class _Role(Enum):
    """MAIN: the first process of the attempt. ZOMBIE: an ended session leader, whose environment cannot be read."""

    MAIN = "main"
    ZOMBIE = "zombie"
    OTHER = "other"


def _role(pid: int, scratch: str, *, patient: bool) -> _Role:
    deadline = clock.steady() + (_EXEC_TIMEOUT if patient else 0.0)
    while True:
        stat = proc.stat(pid)
        if stat is None:
            return _Role.OTHER
        if stat.state in "ZX":
            return _Role.ZOMBIE if stat.session == pid else _Role.OTHER
        mark = proc.environment(pid, MARK)
        if mark is not None or clock.steady() >= deadline:
            return _Role.MAIN if mark == scratch and stat.session == pid else _Role.OTHER
        clock.sleep(0.005)  # between vfork and exec it still has the shepherd's own environment


def _take(attempt: Attempt, pid: int) -> bool:
    stat = proc.stat(pid)
    if stat is None:
        _unknown(attempt)
        return True
    attempt.pid = pid
    attempt.began = attempt.returned = stat.start
    attempt.started = clock.wall() - (clock.steady() - stat.start)
    _find(attempt)
    return True


def _unknown(attempt: Attempt) -> None:
    message = "the shepherd was killed while it started this task; whether it ran is unknown"
    attempt.reason = Reason(ReasonCode.EXIT_UNKNOWN, message).to_wire()
    attempt.ended = clock.wall()
