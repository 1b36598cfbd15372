"""The end of attempts that are processes: by themselves or stopped, with their whole process group. Used by the
shepherd.

When the first process of an attempt has ended, the rest of its process group is ended. Only then does the attempt count
as ended, so that its output no longer grows.
"""

from __future__ import annotations

import os
import resource
import selectors
import signal
from collections.abc import Callable

from grass.model.reasons import Reason, ReasonCode
from grass.system import clock
from node.runtime import proc
from node.runtime.adoption import MARK
from node.runtime.attempts import Attempt, Folders
from node.runtime.frames import WireReason
from node.runtime.guard import Keeper
from node.runtime.journal import Journal
from node.runtime.journal_entries import end_entry, main_end_entry, stop_entry
from node.runtime.kept_memory import KeptMemory
from node.runtime.segments import Segments
from node.runtime.shared_memory import SharedMemory
from node.runtime.shepherd_messages import Spent
from node.runtime.timers import Timers

GROUP_GRACE = 1.0
"""Seconds between TERM and KILL for the rest of a group whose first process ended by itself."""
GROUP_PATIENCE = 4.0
"""Seconds after KILL for which a group is waited for; a process may be stuck in the kernel."""


_BLOCK = 512
"""Bytes of the blocks in which the kernel counts what a process read and wrote."""


def _spent(used: resource.struct_rusage) -> Spent:
    cpu = round(used.ru_utime + used.ru_stime, 6)
    return Spent(cpu, used.ru_maxrss << 10, used.ru_inblock * _BLOCK, used.ru_oublock * _BLOCK)


class Endings:
    """Watches processes until nothing of their attempt is left.

    ``mains``: pid → attempt whose first process, or the rest of its group, has not ended.

    ``note(attempt)`` is called for each ended attempt, after its end is in the journal's buffer.
    """

    def __init__(
        self,
        journal: Journal,
        folders: Folders,
        keeper: Keeper,
        timers: Timers,
        selector: selectors.BaseSelector,
        note: Callable[[Attempt], None],
        kept: KeptMemory,
        keeps: Callable[[Attempt], int],
    ) -> None:
        """``kept``: what is kept of ended attempts. ``keeps``: how many bytes of an attempt may be, at most."""
        self._journal = journal
        self._folders = folders
        self._keeper = keeper
        self._timers = timers
        self._selector = selector
        self._note = note
        self.on_other: Callable[[int, int], None] = lambda *_: None
        """Called with pid and status, as from wait(), of each reaped child that is not an attempt's first process."""
        self.on_end: Callable[[Attempt], None] = lambda *_: None
        """Called with each attempt that was spawned, before its end is in the journal."""
        self.memory = SharedMemory(kept)
        self._keeps = keeps
        self.segments = Segments()
        self.mains: dict[int, Attempt] = {}

    # stopping

    def stop(self, stops: list[tuple[Attempt, float, WireReason | None]]) -> None:
        """Stop attempts, each with its grace and reason. Their signal is sent after the journal has the
        time of KILL."""
        to_stop = [attempt for attempt, grace, reason in stops if self._mark_stopping(attempt, grace, reason)]
        self._journal.flush()
        if to_stop:
            self.look_at_memory()
        for attempt in to_stop:
            self._signal(attempt, attempt.stop_signal)
            self._arm_kill(attempt)

    def _mark_stopping(self, attempt: Attempt, grace: float, reason: WireReason | None) -> bool:
        if attempt.ended is not None or attempt.main_ended is not None:
            return False
        if attempt.pid is None:  # not spawned yet
            attempt.reason = reason
            self.finish(attempt)
            return False
        kill_at = clock.steady() + grace
        if attempt.kill_at is not None and attempt.kill_at <= kill_at:
            return False
        attempt.reason = attempt.reason if attempt.stopping else reason
        attempt.stopping, attempt.kill_at = True, kill_at
        self._journal.add(stop_entry(attempt))
        return True

    def _arm_kill(self, attempt: Attempt) -> None:
        assert attempt.kill_at is not None
        self._timers.at(attempt.kill_at, lambda: self._kill(attempt))

    def _kill(self, attempt: Attempt) -> None:
        if attempt.main_ended is None and attempt.ended is None:
            self.look_at_memory()
            self._signal(attempt, signal.SIGKILL)

    def _signal(self, attempt: Attempt, number: int) -> None:
        assert attempt.pid is not None
        proc.signal_group(attempt.pid, number)

    def look_at_memory(self) -> None:
        self.memory.look({pid: attempt.key for pid, attempt in self.mains.items()})
        self.segments.look(self.mains)

    # observing ends

    def reap(self) -> None:
        """Record the end of each ended child in the journal, then reap it. The order makes a crash harmless."""
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                return
            attempt = self.mains.get(ended.si_pid)
            if attempt:
                by_itself = ended.si_code == os.CLD_EXITED
                code, number = (ended.si_status, None) if by_itself else (None, ended.si_status)
                self._write_end(attempt, code, number)
            _, status, used = os.wait4(ended.si_pid, 0)
            if attempt:
                attempt.spent = _spent(used)
                self._end_group(attempt)
            else:
                self.on_other(ended.si_pid, status)

    def _write_end(self, attempt: Attempt, code: int | None, number: int | None) -> None:
        attempt.code, attempt.signal, attempt.main_ended = code, number, clock.wall()
        self._journal.write(main_end_entry(attempt))

    def _end_group(self, attempt: Attempt) -> None:
        """End the rest of the group of an attempt whose first process has ended."""
        assert attempt.pid is not None
        if not proc.group_exists(attempt.pid):
            self.finish(attempt)
            return
        self.look_at_memory()
        if attempt.stopping and attempt.kill_at is not None:
            attempt.group_deadline = attempt.kill_at
        else:
            attempt.group_deadline = clock.steady() + GROUP_GRACE
            proc.signal_group(attempt.pid, signal.SIGTERM)
        self._watch_group(attempt, 0.001)

    def _watch_group(self, attempt: Attempt, wait: float) -> None:
        assert attempt.pid is not None
        now = clock.steady()
        overdue = now - attempt.group_deadline
        if not proc.group_exists(attempt.pid) or overdue > GROUP_PATIENCE:
            self.finish(attempt)
            return
        if overdue >= 0:
            proc.signal_group(attempt.pid, signal.SIGKILL)
        self._keeper.reap_group(attempt.pid)  # orphans of an earlier shepherd's tasks are children of the guard
        following = min(wait * 1.5, 0.1)
        self._timers.at(now + wait, lambda: self._watch_group(attempt, following))

    def finish(self, attempt: Attempt) -> None:
        attempt.ended = attempt.ended or attempt.main_ended or clock.wall()
        attempt.sizes = self._folders.sizes(attempt.key)
        if attempt.pid is not None:
            self.segments.look(self.mains)
            self.mains.pop(attempt.pid, None)
            self.segments.release(attempt.key)
            self.on_end(attempt)
            self._folders.spare(attempt.key)
            if attempt.code is None and attempt.signal is None and attempt.reason is None:
                message = "its process is gone; how it ended is unknown"
                attempt.reason = Reason(ReasonCode.EXIT_UNKNOWN, message).to_wire()
        if attempt.pidfd is not None:
            os.close(attempt.pidfd)
            attempt.pidfd = None
        attempt.env = {}
        self._journal.add(end_entry(attempt))
        if most := self._keeps(attempt):
            self.memory.keep(attempt.key, most)
        if self.memory.owners:
            self.memory.release([attempt.key])
        self._note(attempt)

    # attempts of an earlier shepherd

    def resume(self, attempt: Attempt) -> None:
        """Continue with an attempt that ``adopt`` returned."""
        if attempt.ended is not None:
            if attempt.sizes is None:
                self.finish(attempt)
            return
        assert attempt.pid is not None
        self.mains[attempt.pid] = attempt
        if attempt.main_ended is not None:
            self._keeper.reap_group(attempt.pid)
            if self._group_is_ours(attempt):
                self._end_group(attempt)
            else:
                self.finish(attempt)
        elif attempt.pidfd is None:
            self._write_end(attempt, None, None)
            self.finish(attempt)
        else:
            self._selector.register(attempt.pidfd, selectors.EVENT_READ, lambda _: self._on_pidfd(attempt))
            if attempt.stopping:
                self._arm_kill(attempt)

    def _group_is_ours(self, attempt: Attempt) -> bool:
        """Return whether its process group still has members. A group that reuses its number does not count."""
        scratch = self._folders.scratch(attempt.key)
        for pid in proc.processes():
            stat = proc.stat(pid)
            if stat and stat.group == attempt.pid and proc.environment(pid, MARK) == scratch:
                return True
        return False

    def _on_pidfd(self, attempt: Attempt, patience: int = 20) -> None:
        """Record the end of the first process of an adopted attempt. Its present parent may know the exit status."""
        assert attempt.pid is not None and attempt.pidfd is not None
        if attempt.pidfd in self._selector.get_map():
            self._selector.unregister(attempt.pidfd)
        status = self._keeper.status(attempt.pid)
        if status is None:
            status = proc.exit_status(attempt.pidfd)
        if status is None:
            stat = proc.stat(attempt.pid)
            if stat and stat.state == "Z" and stat.start <= attempt.returned + 0.02:
                status = stat.status
        if status is None and patience > 0:  # between its end and its reaping, the status may be unavailable
            self._timers.at(clock.steady() + 0.02, lambda: self._on_pidfd(attempt, patience - 1))
            return
        code, number = proc.split_status(status) if status is not None else (None, None)
        self._write_end(attempt, code, number)
        self._keeper.reap_group(attempt.pid)
        self._end_group(attempt)
