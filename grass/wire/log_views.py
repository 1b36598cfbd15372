"""The reply of the API with what tasks printed. Apart from ``views``, so that it loads fast. Sent by the API server."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from grass.wire.codec import Form

LogLines = tuple[str, int, str, float, str, bool, int]
"""Task, attempt, stream, time, text of lines, whether a newline ends the last one, bytes lost before the first."""


class LogPiece(msgspec.Struct, frozen=True):
    """Lines of a log stream, and where to continue after it breaks."""

    job_id: str
    lines: tuple[LogLines, ...]
    """Each: task, attempt, stream, time, text of one or more lines, whether a newline ends it, bytes lost before it."""
    cursor: dict[str, dict[str, int]]
    """Offsets by task and ``<attempt>/<stream>``. Merge them into those of earlier pieces."""
    live: bool
    """Everything that existed when the stream began has been sent."""
    open: bool
    """Of the last piece, whether there may be more, so that the client asks again."""
    before: float | UnsetType = UNSET
    """Send it back with the cursor."""
    pause: float | UnsetType = UNSET
    """Seconds after which to ask again, if too many follow already."""
    late: bool | UnsetType = UNSET
    """Only in the last piece, and only true: some output has not reached the log collector, and may come later."""


LOG_PIECE: Form[LogPiece] = Form(LogPiece)
