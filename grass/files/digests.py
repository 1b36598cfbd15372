"""Digests of files that a job names, for `grass job diff`. Used by the API.

The work is bounded, because a job may name a data set: of larger files only the size and the time are recorded.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

MOST_BYTES = 16 << 20
"""Bytes that are read for one job."""
MOST_FILES = 256
"""Files of the folders that one job names."""


def digests(
    folder: Path, names: Iterable[str], *, folders: bool = True, may_read: Callable[[str], bool] = lambda _: True
) -> dict[str, str]:
    """Return ``sha256:…`` of each file by its name; ``N bytes, modified T`` (wall seconds) beyond ``MOST_BYTES``.

    What is not a regular file below ``folder`` is left out. ``folders``: also the files of the folders among the names.
    ``may_read``: is called with the path below ``folder`` of each file that is read, whichever links lead there.
    """
    found: dict[str, str] = {}
    present = [name for name in names if os.path.lexists(os.path.join(folder, name))]  # noqa: PTH118 (at each start)
    if not present:  # most words of most commands are not files here
        return found
    left = MOST_BYTES
    root = Path(os.path.realpath(folder))
    for name in _files(root, present, folders, may_read):
        try:
            with open(root / name, "rb", opener=_without_waiting) as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode) or not _is_open(root, _opened(file.fileno()), may_read):
                    continue
                if status.st_size > left:
                    found[name] = f"{status.st_size} bytes, modified {status.st_mtime:.0f}"
                    continue
                left -= status.st_size
                found[name] = f"sha256:{hashlib.sha256(file.read(status.st_size)).hexdigest()}"
        except (OSError, ValueError):
            continue  # gone, or not readable: the task will say so
    return found


def _files(root: Path, names: Iterable[str], folders: bool, may_read: Callable[[str], bool]) -> Iterator[str]:
    count = 0
    for name in names:
        try:
            real = Path(os.path.realpath(root / name))
            if not _is_open(root, real, may_read):
                continue
            inside = sorted(_inside(real, MOST_FILES - count)) if folders and real.is_dir() else [""]
        except (OSError, ValueError):
            continue
        for each in inside:
            count += 1
            if count > MOST_FILES:
                return
            yield f"{name}/{each}" if each else name


def _inside(folder: Path, most: int) -> Iterator[str]:
    """Yield at most ``most`` files, without hidden folders; links to folders are not followed."""
    for where, below, files in os.walk(folder):
        below[:] = sorted(each for each in below if not each.startswith(".") and each != "__pycache__")
        for each in files:
            if most <= 0:
                return
            most -= 1
            yield os.path.relpath(Path(where, each), folder)


def _is_open(root: Path, real: Path, may_read: Callable[[str], bool]) -> bool:
    """Return whether the path, without links, is below ``root`` and may be read."""
    return root in real.parents and may_read(str(real.relative_to(root)))


def _opened(descriptor: int) -> Path:
    """Return the path of an open file. A link may have been replaced since the name was looked at."""
    return Path(f"/proc/self/fd/{descriptor}").readlink()


def _without_waiting(path: str, flags: int) -> int:
    """Open the file, but without waiting for the other end of a pipe."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
