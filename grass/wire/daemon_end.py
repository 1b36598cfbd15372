"""The end of a daemon that nobody asked for, as supervisord saw it. One file each in ``ends/`` of a cluster's folder.

Written by supervisord of a local cluster, read and removed by the API server, which makes an event of it.
"""

from __future__ import annotations

import msgspec

from grass.wire.codec import Form


class DaemonEnd(msgspec.Struct, frozen=True, kw_only=True):
    daemon: str
    pid: int
    time: float
    """Seconds since the epoch."""
    code: int
    """Exit code; negative: the number of the signal that ended it."""
    hung: bool = False
    """Whether it was killed because it gave no sign of life."""


DAEMON_END: Form[DaemonEnd] = Form(DaemonEnd)
