"""Read files that a task or a user may have written, so that neither their size nor their kind hurts the reader.

Used by the docker runtime, ``node.agent.attempts`` and ``grass.files``.
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


def read_end(path: str, most: int) -> bytes:
    """Return the whole lines among the last ``most`` bytes of a regular file. Raises OSError, UnfitFileError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UnfitFileError(f"{path} is no file")
        start = max(0, status.st_size - most)
        content = os.pread(file.fileno(), most, start)
    return content.partition(b"\n")[2] if start else content
