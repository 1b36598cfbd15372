"""Folder of a cluster's sockets: short enough for the kernel, and owned by this user alone.

Used by ``doctor``, ``layout``, ``local`` and ``removed_folder``.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from pathlib import Path

from grass.errors import GrassError

LONGEST_SOCKET = 107
_LONGEST_NAME = "supervisor.sock.4194304"
"""Longest socket name: supervisord first binds to its socket's name with its pid, then renames the socket."""


class UnsafeFolderError(GrassError):
    """The folder is unsafe. Fix: remove the existing file or folder, or set GRASS_HOME to a shorter path."""


def choose(cluster_home: Path, temporary: Path = Path("/tmp")) -> Path:  # noqa: S108 # see `make`
    """Choose ``run/`` in the cluster's folder if the sockets' paths are short enough, otherwise a folder under /tmp."""
    inside = cluster_home / "run"
    if len(os.fsencode(inside / _LONGEST_NAME)) <= LONGEST_SOCKET:
        return inside
    digest = hashlib.sha256(os.fsencode(cluster_home)).hexdigest()[:16]
    return temporary / f"grass-{os.getuid()}-{digest}"


def make(folder: Path) -> None:
    """Create the folder, or check an existing one: mode 0700 and owned by this user.

    Under /tmp, anybody could have created the folder, or a link in its place.
    """
    try:
        folder.mkdir(mode=0o700)
        return
    except FileExistsError:
        found = folder.lstat()
    except OSError as error:
        raise UnsafeFolderError(f"cannot make the folder for sockets {folder}: {error.strerror}") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise UnsafeFolderError(
            f"{folder}: must be a folder that only you can enter, because it holds sockets; "
            "remove it, or set GRASS_HOME to a shorter path"
        )


def remove(folder: Path) -> None:
    """Remove the folder. Never follow a link, and keep a folder of another user."""
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid():
        shutil.rmtree(folder)
