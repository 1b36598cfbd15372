"""One entry of a daemon's own log, sent to the collector by ``grass.api.daemon_log`` and kept in its journal.

It has the tag ``grass-daemon.<node>.<daemon>`` in the forward protocol; ``@master`` instead of a node is the master.
The collector takes the node and the daemon from the tag, which it checks, and never from the record. Sent by daemons,
read by the collector and the API.
"""

from __future__ import annotations

import msgspec

from grass.wire.codec import Form

TAG = "grass-daemon"
MASTER = "@master"
"""In place of a node's name. No node can be called so."""
LONGEST = 16_384
"""Characters of one entry. The rest is cut."""


class DaemonEntry(msgspec.Struct, frozen=True):
    """What a daemon sends."""

    time: float
    """Seconds since the epoch, by the daemon's machine."""
    level: str
    """``INFO``, ``WARNING``, ``ERROR`` or ``CRITICAL``."""
    text: str
    """May have several lines, such as a traceback."""


class DaemonLine(msgspec.Struct, frozen=True):
    """What the journal keeps and the API returns."""

    time: float
    node: str | None
    """None: the master."""
    daemon: str
    level: str
    text: str


def tag_of(node: str | None, daemon: str) -> str:
    return f"{TAG}.{node or MASTER}.{daemon}"


DAEMON_ENTRY: Form[DaemonEntry] = Form(DaemonEntry)
DAEMON_LINE: Form[DaemonLine] = Form(DaemonLine)
