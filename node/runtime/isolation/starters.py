"""The shepherd's side of ``starter``: keeps some starters ready, and has one of them start a task.

Used by ``tasks``.
"""

from __future__ import annotations

import marshal
import os
import select
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

from grass.system import clock, environment, own_program
from node.runtime import proc
from node.runtime.adoption import MARK
from node.runtime.isolation import processes, system_call_filter
from node.runtime.isolation.privilege import become_root
from node.runtime.isolation.processes import Namespaces
from node.runtime.isolation.starter import FAILED, STARTED, StartRequest
from node.runtime.spawn import NOT_EXECUTABLE, CannotStartError

KEPT = 4
"""Starters that wait. Each has about 1 MB of memory of its own."""
_AGAIN = 1.0
"""Seconds after which another starter is made, if none took the request: those that waited may have been killed."""
_LOOK = 0.05
"""Seconds after which the shepherd looks whether a starter that has the request was stopped: another task of its user
may do that."""
_TRIES = 3
_PATIENCE = 15.0
"""Seconds until a start fails: no starter took it, or the one that did is stuck, as on a dead mount. Less than the
patience of the node-agent with a shepherd that does not answer."""
_END = 0.2
"""Seconds for which the end of a starter is waited for that was killed; it may be stuck in the kernel."""
_PROGRAM = "node.runtime.isolation.starter"


class Starters:
    """The starters that wait for a request.

    ``lock``: descriptor of the shepherd's lock. ``folders``: of control groups. ``on_wait``: called now and then
    while a start is slow, which the shepherd's loop waits for.
    """

    def __init__(self, lock: int, folders: Sequence[str], on_wait: Callable[[], None]) -> None:
        self._lock = lock
        self._on_wait = on_wait
        self._folders = folders
        self._requests: socket.socket | None = None
        self._line: socket.socket | None = None
        self._waiting = 0

    def prepare(self) -> None:
        """Have starters made, to be called when there is time. A failure shows at the next start."""
        if self._waiting < KEPT:
            with suppress(CannotStartError, OSError):
                self._ask(KEPT - self._waiting)

    def start(self, request: StartRequest, namespaces: Namespaces, streams: Sequence[int]) -> tuple[int, str]:
        """Start a program as a session of its own; return its pid and its control group. ``streams``: its first three.

        Raises CannotStartError.
        """
        written = os.memfd_create("request")
        try:
            with open(written, "wb", buffering=0, closefd=False) as file:
                file.write(marshal.dumps(tuple(request)))
            deadline = clock.steady() + _PATIENCE
            for _ in range(_TRIES):
                if said := self._sent([written, *namespaces, *streams], request, deadline):
                    return _read(said)
                self._close()  # nobody took the request, so it can be sent again
        except (OSError, ValueError) as error:
            raise CannotStartError(NOT_EXECUTABLE, f"cannot start: {error}") from error
        finally:
            os.close(written)
        raise CannotStartError(NOT_EXECUTABLE, "cannot start: no process took the request; the node may lack memory")

    def _sent(self, descriptors: Sequence[int], request: StartRequest, deadline: float) -> bytes:
        """Send the request, as ``descriptors``; return what came of it. Empty: nobody took it."""
        if self._waiting < 1:
            self._ask(KEPT)
        assert self._requests is not None
        reader, writer = os.pipe2(os.O_CLOEXEC)
        try:
            socket.send_fds(self._requests, [b"o"], [writer, *descriptors])
            os.close(writer)
            writer = -1
            self._waiting -= 1
            return _ended(self._result(reader, deadline), reader, request)
        except (BrokenPipeError, ConnectionResetError):  # all starters and their source were killed
            return b""
        finally:
            for descriptor in (reader, writer):
                if descriptor >= 0:
                    os.close(descriptor)

    def _result(self, report: int, deadline: float) -> bytes:
        """Read what a starter says, until it has started the task, has failed, or says no more. Empty: nobody took the
        request."""
        poll = select.poll()
        poll.register(report, select.POLLIN)
        said = b""
        while True:
            ready = poll.poll((_LOOK if said else _AGAIN) * 1000)
            if not ready:
                self._on_wait()
            if ready:
                part = os.read(report, 1 << 16)
                said += part
                if not part or _outcome(said)[:1] == STARTED:  # a write of this size is whole
                    return said
            elif said:
                if clock.steady() >= deadline or _is_stopped(_starter(said)):
                    return said
            elif clock.steady() >= deadline:
                return b""
            else:
                self._ask(1)
                self._waiting = 0  # none but this one is known to wait

    def _ask(self, count: int) -> None:
        """Have starters made; start their source if there is none any more. Raises CannotStartError, OSError."""
        if self._line is not None:
            try:
                self._line.send(b"%d" % count)
                self._waiting += count
                return
            except (BrokenPipeError, ConnectionResetError):  # the source was killed
                self._close()
        self._make_source(count)

    def _close(self) -> None:
        """End the source and the starters that wait."""
        for line in (self._line, self._requests):
            if line is not None:
                line.close()
        self._line = self._requests = None
        self._waiting = 0

    def _make_source(self, count: int) -> None:
        refused = marshal.dumps(tuple(system_call_filter.make()))
        mine, line = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with line:
            mine.send(b"%d" % count)
            sender, requests = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            passed = [line.fileno(), requests.fileno(), self._lock]

            def prepare() -> processes.Program:
                become_root()
                os.chdir("/")  # Python also searches modules in the present directory
                passed.append(os.memfd_create("filter"))
                os.write(passed[-1], refused)
                for descriptor in passed:
                    os.set_inheritable(descriptor, True)
                words = own_program.command(_PROGRAM, *map(str, passed), *self._folders)
                return processes.Program(sys.executable, words, environment.whole_environment())

            with requests:
                processes.fork(prepare)
        self._line, self._requests, self._waiting = mine, sender, count


def _starter(said: bytes) -> int:
    return int(said[1:].partition(b"\n")[0])


def _outcome(said: bytes) -> bytes:
    return said.partition(b"\n")[2]


def _is_stopped(starter: int) -> bool:
    """Return whether it, or its child that is about to become the task, was stopped by a signal."""
    stats = [proc.stat(pid) for pid in (starter, *proc.children(starter))]
    return any(stat.state in "Tt" for stat in stats if stat)


def _ended(said: bytes, report: int, request: StartRequest) -> bytes:
    """End a starter that has said all, or does not go on; return what it said. It acts as the account of its request,
    whose tasks may stop it at any moment: also when it has started a task, whose end nobody would see then."""
    if not said:
        return b""
    starter = _starter(said)
    proc.kill(starter)  # our child, which nobody else reaps
    if _outcome(said):
        return said
    until = clock.steady() + _END
    while os.waitid(os.P_PID, starter, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None and clock.steady() < until:
        clock.sleep(0.002)
    poll = select.poll()
    poll.register(report, select.POLLIN)
    if poll.poll(0):
        said += os.read(report, 1 << 16)  # it was late only
    if not _outcome(said):
        _end_children(request)
    return said


def _end_children(request: StartRequest) -> None:
    """End the child of an ended starter, whether it is the task already or not: nobody observes it, and it may hold the
    shepherd's lock. One that is just between the two is left to ``upkeep``."""
    for pid in proc.children(os.getpid()):
        if proc.owner(pid) == request.uid and (
            _PROGRAM.encode() in proc.read(f"/proc/{pid}/cmdline") or proc.environment(pid, MARK) == request.env[MARK]
        ):
            proc.kill(pid)


def _read(said: bytes) -> tuple[int, str]:
    """Return the pid of the task and the name of its control group. Raises CannotStartError."""
    outcome = _outcome(said)
    what, rest = outcome[:1], outcome[1:]
    if what == STARTED:
        pid, _, group = rest.decode().partition(" ")
        return int(pid), group
    if what == FAILED:
        raise CannotStartError(*marshal.loads(rest))  # noqa: S302 (of our own process)
    raise CannotStartError(
        NOT_EXECUTABLE,
        f"cannot start: its process was stopped, killed or stuck for {_PATIENCE:g} s before it was a task",
    )
