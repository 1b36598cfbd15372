"""A folder of the share in which tasks may write. Used by ``views`` and ``node.runtime.docker.share``."""

from __future__ import annotations

import os
from contextlib import suppress

_MODE = 0o775  # the group is that of all accounts


def make_writable(folder: str) -> None:
    """Make the folder. One that exists stays as it is: the master may have made it first. Raises OSError.

    A share without modes, such as one through FUSE, refuses to set the mode; tasks then have the rights of the mount.
    """
    with suppress(FileExistsError):
        os.mkdir(folder)  # noqa: PTH102 (the hot path)
        with suppress(OSError):
            os.chmod(folder, _MODE)  # noqa: PTH101
