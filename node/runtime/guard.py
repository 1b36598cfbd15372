"""The guard: parent of the shepherd. It restarts a killed shepherd, and keeps the exit codes of tasks meanwhile.

Tasks are children of the shepherd. When it is killed, the kernel gives them to the nearest *subreaper*, which is this
process. It does not reap them, so exit codes wait here, as zombies, until the next shepherd asks for them. The guard
does nothing else, so that nothing here can fail. Used by ``adoption``, ``endings``, ``shepherd`` and ``upkeep``.

When the guard itself is killed, the shepherd runs on. The next guard waits for the end of that shepherd before it
starts another one, so there is always one owner of exit codes.
"""

from __future__ import annotations

import ctypes
import fcntl
import logging
import os
import select
import signal
import socket
from collections.abc import Callable

from grass.system import clock
from node.runtime import proc

_PR_SET_CHILD_SUBREAPER = 36
_SHORTEST_LIFE = 0.2
"""Seconds. A shepherd that ends sooner is restarted only after this time."""
_REPLY_TIMEOUT = 2.0

log = logging.getLogger(__name__)


def become_subreaper() -> None:
    """Make this process the parent of orphans among its descendants, instead of init."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


class Keeper:
    """The shepherd's connection to its guard: asks for the statuses of children that an earlier shepherd left."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self.guard = os.getppid()

    def children(self) -> list[int]:
        """Return the guard's children while it lives: this shepherd, and tasks that earlier shepherds left."""
        return proc.children(self.guard) if os.getppid() == self.guard else []

    def status(self, pid: int) -> int | None:
        """Return the status, as from wait(), of a zombie of the guard. None: it has none with this pid."""
        try:
            self._line.send(b"status %d" % pid)
            reply = self._line.recv(64)
        except OSError:
            return None
        return int(reply) if reply and reply != b"-" else None

    def reap(self, pid: int) -> None:
        """Let the guard reap a zombie whose end is in the journal."""
        self._tell(b"reap %d" % pid)

    def reap_group(self, group: int) -> None:
        """Let the guard reap all zombies of a process group whose leader's end is in the journal."""
        self._tell(b"reap %d" % -group)

    def _tell(self, message: bytes) -> None:
        try:
            self._line.send(message)
        except OSError:
            return


def run(lock: str, shepherd: Callable[[Keeper], int]) -> int:
    """Keep one shepherd running until it ends by itself (code 0) or this process gets TERM.

    ``lock``: a file that the shepherd locks, with its pid in it (``hold``).
    """
    become_subreaper()
    stop = _Stop()
    try:
        _outlive(lock, stop)
        while True:
            began = clock.steady()
            if _one_life(shepherd, stop) == 0:
                return 0
            if clock.steady() - began < _SHORTEST_LIFE:
                select.select([] if stop.wanted else [stop.wake], [], [], _SHORTEST_LIFE)
    finally:
        stop.close()


def hold(lock: str) -> int:
    """Lock the file, so that this process is the node's only shepherd. Return the descriptor to keep open.

    Raises BlockingIOError: another shepherd runs."""
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    os.ftruncate(descriptor, 0)
    os.write(descriptor, b"%d" % os.getpid())
    return descriptor


class _Stop:
    """SIGTERM and SIGINT of the guard, as a flag and a descriptor; both are passed on to the shepherd as SIGTERM."""

    def __init__(self) -> None:
        self.wanted = False
        self.wake, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._want)

    def _want(self, *_: object) -> None:
        self.wanted = True

    def clear(self) -> None:
        try:
            os.read(self.wake, 4096)
        except BlockingIOError:
            return

    def close(self) -> None:
        signal.set_wakeup_fd(-1)
        os.close(self.wake)
        os.close(self._write)


def _outlive(lock: str, stop: _Stop) -> None:
    """Wait until the shepherd of a killed guard has ended."""
    while True:
        try:
            os.close(hold(lock))
            return
        except BlockingIOError:
            pass
        with open(lock) as file:  # noqa: PTH123 (keep the guard small)
            text = file.read()
        try:
            pidfd = os.pidfd_open(int(text))
        except (OSError, ValueError):
            select.select([], [], [], 0.05)  # it is starting or ending right now
            continue
        while pidfd not in select.select([pidfd, stop.wake], [], [], 0.2 if stop.wanted else None)[0]:
            stop.clear()
            if stop.wanted:
                signal.pidfd_send_signal(pidfd, signal.SIGTERM)
        os.close(pidfd)


def _one_life(shepherd: Callable[[Keeper], int], stop: _Stop) -> int:
    """Start a shepherd and answer its questions until it ends. Return its exit code, negative for a signal."""
    mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    signals = {signal.SIGTERM, signal.SIGINT, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)  # until both processes have their handlers
    pid = os.fork()
    if pid == 0:
        mine.close()
        stop.close()
        its.settimeout(_REPLY_TIMEOUT)
        os._exit(_guarded(shepherd, Keeper(its)))
    its.close()
    mine.setblocking(False)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
    term_sent = False
    with mine:
        while True:
            if stop.wanted and not term_sent:
                term_sent = True
                os.kill(pid, signal.SIGTERM)
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            readable = select.select([mine.fileno(), stop.wake], [], [])[0]
            stop.clear()
            if mine.fileno() in readable:
                _answer(mine)


def _guarded(shepherd: Callable[[Keeper], int], keeper: Keeper) -> int:
    try:
        return shepherd(keeper)
    except Exception:
        log.exception("the shepherd failed; the guard starts another one")
        return 1


def _answer(line: socket.socket) -> None:
    try:
        word, _, pid = line.recv(64).partition(b" ")
        if word == b"status":
            line.send(_status(int(pid)))
        elif word == b"reap":
            while os.waitpid(int(pid), os.WNOHANG)[0]:
                continue
    except OSError:
        return


def _status(pid: int) -> bytes:
    try:
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return b"-"
    if ended is None:
        return b"-"
    return b"%d" % (ended.si_status << 8 if ended.si_code == os.CLD_EXITED else ended.si_status)
