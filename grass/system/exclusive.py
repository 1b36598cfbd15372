"""One process at a time in a block of code, by a lock file that stays. The kernel frees the lock of a killed process.

``grass.provision.filelock`` is for commands of people: it gives up after a while, and leaves no file. Used by
``grass.api.user_files``, ``grass.files.key`` and ``grass.files.share``.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Wait until no other process is in a block with this lock file. ``path``: made if missing. Raises OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
