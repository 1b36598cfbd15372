"""The end of a daemon that nobody asked for. A file each in ``ends/`` of a cluster's folder, until it is an event.

On a local cluster supervisord writes the file. On hosts, systemd does (``ExecStopPost``), in words of its own
(``grass/supervision/daemon_ends.py``). The API server takes those of its machine. A node-agent reports those of its
node.
"""

from __future__ import annotations

import signal

import msgspec

from grass.wire.codec import Form


class DaemonEnd(msgspec.Struct, frozen=True, kw_only=True):
    daemon: str
    pid: int = 0
    """0: not known."""
    time: float
    """Seconds since the epoch."""
    code: int
    """Exit code; negative: the number of the signal that ended it."""
    hung: bool = False
    """Whether it was killed because it gave no sign of life."""
    out_of_memory: bool = False
    """Whether the kernel ended it or a child of it, for lack of memory."""


class DaemonEnds(msgspec.Struct, frozen=True, tag_field="kind", tag="daemon-ends"):
    """Ends of daemons of this node. After a crash of the node-agent, an end may be reported twice."""

    ends: tuple[DaemonEnd, ...]


def sentence(end: DaemonEnd) -> str:
    """Return what happened to the daemon, and what happens next."""
    how = f"ended by itself, exit code {end.code}" if end.code >= 0 else f"ended by signal {_name(-end.code)}"
    if end.hung:
        how = "killed, because it gave no sign of life"
    if end.out_of_memory:
        how = "ended, because memory ran out"
    pid = f" (pid {end.pid})" if end.pid else ""
    return f"{end.daemon}: {how}{pid}; it is started again"


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


DAEMON_END: Form[DaemonEnd] = Form(DaemonEnd)
