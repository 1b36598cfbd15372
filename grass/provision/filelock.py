"""Lock files: one `grass` command at a time works on a cluster, or fetches the same packages.

A lock file is removed when no process has the lock. Used by this package and ``grass.provision.on_premises``.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from grass.errors import ConflictError, InputError
from grass.system import clock

PATIENCE = 60.0


@contextmanager
def cluster_lock(home: Path, name: str, patience: float = PATIENCE) -> Iterator[None]:
    """Lock the cluster, and wait for another command on the same cluster.

    ``home`` is GRASS_HOME; the lock file lies beside the clusters' folders. Raises ConflictError after ``patience``
    seconds.
    """
    path = home / f".{name}.lock"
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = _take(path, clock.steady() + patience)
    except OSError as error:
        raise InputError(
            f"cannot write in {home}: {error.strerror}; set GRASS_HOME to a folder that you can write to"
        ) from error
    if descriptor is None:
        raise ConflictError(f"cluster {name}: another grass command is working on it; try again when that is done")
    try:
        yield
    finally:
        _release(path, descriptor)


@contextmanager
def file_lock(path: Path, patience: float) -> Iterator[None]:
    """Lock a file, created in its existing folder. Raises OSError; TimeoutError after ``patience`` seconds."""
    descriptor = _take(path, clock.steady() + patience)
    if descriptor is None:
        raise TimeoutError(f"{path}: another process has been holding this lock for {patience:.0f} s")
    try:
        yield
    finally:
        _release(path, descriptor)


def _take(path: Path, until: float) -> int | None:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            if clock.steady() > until:
                return None
            clock.sleep(0.02)
            continue
        if _same_file(descriptor, path):
            return descriptor
        os.close(descriptor)


def _release(path: Path, descriptor: int) -> None:
    path.unlink()  # unlinked while locked: a waiting process notices and opens the next file
    os.close(descriptor)


def _same_file(descriptor: int, path: Path) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    here = os.fstat(descriptor)
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)
