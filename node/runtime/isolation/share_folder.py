"""Folders of the share that tasks see, and in which they may write.

Used by ``mount_namespaces`` and ``node.runtime.docker.share``.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from contextlib import suppress

from grass.files.rights import OF_ALL
from node.runtime.isolation.visible_files import COVERED

_MODE = 0o775  # the group is that of all accounts
_READ_BY_ALL = 0o755
NO_ANSWER = (errno.EIO, errno.ENOTCONN, errno.EHOSTDOWN, errno.ESTALE, errno.ETIMEDOUT, errno.ECONNABORTED)
"""Errors of a share that is away, and not of the folder that is asked for."""


def make_writable(folder: str, mode: int = _MODE) -> None:
    """Make a folder in which tasks may write. One that exists stays as it is: the master may have made it first.

    Raises OSError. A check comes first because it is cheap: on FUSE, the kernel caches its result for a moment, and
    making the view needs the same entry next. A share without modes, such as one on FUSE, refuses to set the mode;
    tasks then have the rights of the mount.
    """
    if os.path.isdir(folder):  # noqa: PTH112 (the hot path)
        return
    with suppress(FileExistsError):
        os.mkdir(folder)  # noqa: PTH102 (the hot path)
        with suppress(OSError):
            os.chmod(folder, mode)  # noqa: PTH101


def make_of_user(share: str, folders: Iterable[str]) -> None:
    """Make the folder that all users read, in which no task may write, and a user's ``folders`` in ``data/``.

    ``folders`` are those of ``visible_files.folders_of``. Raises OSError.
    """
    make_writable(f"{share}/{OF_ALL}", _READ_BY_ALL)
    for folder in folders:
        make_writable(folder)


def beside(share: str) -> tuple[str, ...]:
    """Return the names in the share that all tasks read: those beside the folders in which a task sees its part.

    May wait for the share. Raises OSError.
    """
    return tuple(name for name in names(share) if name not in COVERED)


def names(folder: str) -> tuple[str, ...]:
    """Return the names in a folder that are shown to tasks: no links, and none that begins with a point.

    Raises OSError.
    """
    with os.scandir(folder) as found:
        return tuple(sorted(each.name for each in found if not each.is_symlink() and not each.name.startswith(".")))
