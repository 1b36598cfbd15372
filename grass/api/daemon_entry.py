"""What is kept of a record of a daemon's log. Used by those who send it, and by the collector for its own log."""

from __future__ import annotations

import logging

from grass.wire.daemon_line import LONGEST, DaemonEntry

FORMAT = "%(asctime)s %(levelname)s %(message)s"


def entry_of(record: logging.LogRecord) -> DaemonEntry:
    """Return what is sent of a record: its message with its traceback, cut to ``LONGEST`` characters."""
    text = record.getMessage()
    if record.exc_info:
        text += "\n" + logging.Formatter().formatException(record.exc_info)
    return DaemonEntry(record.created, record.levelname, text[:LONGEST])
