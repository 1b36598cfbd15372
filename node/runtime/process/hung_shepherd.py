"""Kill a shepherd that does not answer, and continue a stopped guard. Called by the shepherd's client; never waits."""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
from contextlib import suppress

from node.runtime import proc

_CREDENTIALS = struct.Struct("3i")


def peer_pid(connection: socket.socket) -> int:
    """Return the pid of the process that listens at the other end of a unix socket."""
    found: int = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))[0]
    return found


def guard_of(connection: socket.socket) -> int | None:
    """Return a descriptor (pidfd) of the guard of the shepherd at the other end. None: that guard is gone."""
    stat = proc.stat(peer_pid(connection))
    try:
        return os.pidfd_open(stat.parent) if stat is not None and stat.parent > 1 else None
    except OSError:
        return None


def continue_guard(guard: int) -> None:
    """Let a guard go on that was stopped (SIGSTOP), so that it starts the next shepherd. Another is not affected."""
    with suppress(OSError):
        signal.pidfd_send_signal(guard, signal.SIGCONT)


def kill_hung_shepherd(connection: socket.socket) -> bool:
    """Kill the process at the other end. Its parent, the guard, restarts it. False: it is already gone.

    Its tasks survive: they become children of the guard, which keeps their exit codes for the next shepherd (ADR 6).
    The guard may have been stopped (SIGSTOP) together with the shepherd, so it is continued first.
    """
    try:
        pidfd = os.pidfd_open(peer_pid(connection))
    except OSError:
        return False
    try:
        if _is_closed(connection):  # another process may have its pid now
            return False
        stat = proc.stat(peer_pid(connection))
        if stat is not None and stat.parent > 1:
            with suppress(OSError):
                os.kill(stat.parent, signal.SIGCONT)
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except OSError:
        return False
    finally:
        os.close(pidfd)
    return True


def _is_closed(connection: socket.socket) -> bool:
    poll = select.poll()
    poll.register(connection, 0)  # hang-ups are always reported
    return bool(poll.poll(0))
