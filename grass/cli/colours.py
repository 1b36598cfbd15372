"""Colours for states on a terminal. Pure. ``output`` calls it after the layout, so that widths stay right."""

from __future__ import annotations

import re

_GREEN, _RED, _YELLOW, _CYAN, _GREY = (f"\x1b[{code}m" for code in (32, 31, 33, 36, 90))
_END = "\x1b[0m"
_STATES = {
    **dict.fromkeys(("SUCCEEDED", "READY", "DONE"), _GREEN),
    **dict.fromkeys(("FAILED", "LOST", "QUARANTINED", "FATAL"), _RED),
    **dict.fromkeys(("RUNNING", "ASSIGNED", "ACTIVE", "JOINING"), _CYAN),
    **dict.fromkeys(("QUEUED", "PENDING", "STOPPING", "SILENT", "DRAINING", "SUSPENDED", "RESCALING"), _YELLOW),
    **dict.fromkeys(("STOPPED", "DRAINED", "LEFT", "PAUSED"), _GREY),
}
_WORD = re.compile(rf"(?<![\w.-])(?:{'|'.join(_STATES)})(?![\w.-])")


def painted(line: str) -> str:
    """Return the line with its states in colour."""
    return _WORD.sub(lambda found: f"{_STATES[found[0]]}{found[0]}{_END}", line)
