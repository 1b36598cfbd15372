"""Marks on the way of a job from the client to its process, for `tests/bench/start_latency.py --ladder`.

Off, unless GRASS_TRACE names a file: a mark then costs one comparison. Each is one line: the wall clock and a name.
Called where a message passes from one process or thread to the next. Nothing may be decided by it. Used by all
packages.
"""

from __future__ import annotations

import os

from grass.system import clock, environment


def _opened(path: str) -> int | None:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600) if path else None


_file = _opened(environment.trace_file())


def mark(name: str) -> None:
    """Write a mark, if GRASS_TRACE names a file."""
    if _file is not None:
        os.write(_file, f"{clock.wall():.6f} {name}\n".encode())
