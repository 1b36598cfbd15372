"""Read files that a task or a user may have written, so that neither their size nor their kind hurts the reader.

Used by the docker runtime and by ``grass.files``.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path


class UnfitFileError(ValueError):
    """The file is longer than it may be, or is no file."""


def read_at_most(path: Path, most: int) -> bytes:
    """Return the content of a regular file. Does not wait for the writer of a pipe. Raises OSError, UnfitFileError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UnfitFileError(f"{path} is no file")
        content = file.read(most + 1)
    if len(content) > most:
        raise UnfitFileError(f"{path} is longer than {most} bytes")
    return content
