"""What a new shepherd makes of the journal of the one before: nothing is lost, nothing runs twice.

Called once, before the first message is taken. An attempt is then one of: ended; running, watched through a pidfd;
ended but for others of its group; or never spawned, and so left out: who wants it will ask for it again.
"""

from __future__ import annotations

import os

from grass import clock
from grass.model.reasons import Reason, ReasonCode
from node.runtime import proc
from node.runtime.attempts import Attempt, Folders
from node.runtime.guard import Keeper
from node.runtime.journal import Past

MARK = "GRASS_SCRATCH"
"""Names the attempt in the environment of each of its processes."""

_ROUNDING = 0.02
"""Start times in /proc are in steps of 10 ms."""
_EXEC_TIMEOUT = 5.0


def adopt(past: Past, keeper: Keeper, boot_id: str, folders: Folders) -> dict[str, Attempt]:
    if past.boot_id != boot_id:
        for attempt in past.attempts.values():
            _after_reboot(attempt)
        return past.attempts
    kept = {key: attempt for key, attempt in past.attempts.items() if not _intended(attempt)}
    intended = [attempt for attempt in past.attempts.values() if _intended(attempt)]
    for attempt in kept.values():
        _find(attempt)
    if intended:
        # One attempt is spawned at a time; older intents without a pid were looked into by earlier shepherds.
        last = intended[-1]
        mains = {attempt.pid for attempt in kept.values() if attempt.ended is None}
        orphans = set(keeper.children()) - mains - {os.getpid()}
        if _search(last, orphans if past.guard == keeper.guard else None, folders):
            kept[last.key] = last
    return kept


def _intended(attempt: Attempt) -> bool:
    return attempt.pid is None and attempt.ended is None


def _after_reboot(attempt: Attempt) -> None:
    if attempt.ended is None:
        attempt.ended = attempt.main_ended or clock.wall()
        if attempt.main_ended is None:
            message = "the node was started again while it ran"
            attempt.reason = Reason(ReasonCode.NODE_REBOOTED, message).to_wire()


def _find(attempt: Attempt) -> None:
    """Hold its first process by a pidfd if that still exists, ended or not."""
    if attempt.ended is not None or attempt.main_ended is not None or attempt.pid is None:
        return
    try:
        pidfd = os.pidfd_open(attempt.pid)
    except OSError:
        return
    stat = proc.stat(attempt.pid)  # of the process that the pidfd holds, unless that was reaped in between
    if stat and attempt.began - _ROUNDING <= stat.start <= attempt.returned + _ROUNDING:
        attempt.pidfd = pidfd
    else:
        os.close(pidfd)


def _search(attempt: Attempt, orphans: set[int] | None, folders: Folders) -> bool:
    """Whether it was (or may have been) spawned, though nobody wrote its pid down; sets that if it can be found.

    ``orphans`` None: another guard has taken over, so its process may have ended and be gone without a trace.
    """
    scratch = folders.scratch(attempt.key)
    among = proc.processes() if orphans is None else sorted(orphans)
    silent = []
    for pid in among:
        match _role(pid, scratch, patient=orphans is not None):
            case "main":
                return _take(attempt, pid)
            case "zombie":
                silent.append(pid)
    if orphans is None:
        _unknown(attempt)
        return True
    if len(silent) > 1:
        _unknown(attempt)
    # the guard lets no process go, so with none there it was never spawned
    return bool(silent) and (attempt.reason is not None or _take(attempt, silent[0]))


def _role(pid: int, scratch: str, *, patient: bool) -> str:
    """``main``: the first process of the attempt. ``zombie``: a leader that cannot be asked any more. ``other``."""
    deadline = clock.steady() + (_EXEC_TIMEOUT if patient else 0.0)
    while True:
        stat = proc.stat(pid)
        if stat is None:
            return "other"
        if stat.state in "ZX":
            return "zombie" if stat.session == pid else "other"
        mark = proc.environment(pid, MARK)
        if mark is not None or clock.steady() >= deadline:
            return "main" if mark == scratch and stat.session == pid else "other"
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
    message = "the shepherd was killed while it started this, and nothing tells whether it ran"
    attempt.reason = Reason(ReasonCode.EXIT_UNKNOWN, message).to_wire()
    attempt.ended = clock.wall()
