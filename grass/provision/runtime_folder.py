"""The folder of a cluster's sockets: short enough for the kernel, and nobody else's."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from pathlib import Path

from grass.errors import GrassError

LONGEST_SOCKET = 107
_LONGEST_NAME = "supervisor.sock.4194304"
"""supervisord binds to this name with its pid first, then renames."""


class UnsafeFolderError(GrassError):
    """Fix: remove what lies there, or set GRASS_HOME to a shorter path."""


def choose(cluster_home: Path, temporary: Path = Path("/tmp")) -> Path:
    """``run/`` in the cluster's folder if its sockets' paths are short enough, else one under /tmp."""
    inside = cluster_home / "run"
    if len(os.fsencode(inside / _LONGEST_NAME)) <= LONGEST_SOCKET:
        return inside
    digest = hashlib.sha256(os.fsencode(cluster_home)).hexdigest()[:16]
    return temporary / f"grass-{os.getuid()}-{digest}"


def make(folder: Path) -> None:
    """Mode 0700 and ours, also when it was there before: under /tmp anybody could have made it, or a link."""
    try:
        folder.mkdir(mode=0o700)
        return
    except FileExistsError:
        found = folder.lstat()
    except OSError as error:
        raise UnsafeFolderError(f"cannot make the folder for sockets {folder}: {error.strerror}") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise UnsafeFolderError(
            f"{folder} is to hold sockets, but it is not a folder that only you can enter; "
            "remove it, or set GRASS_HOME to a shorter path"
        )


def remove(folder: Path) -> None:
    """Never follows a link, and leaves alone what is not ours."""
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid():
        shutil.rmtree(folder)
