"""A mount whose server does not answer, as a share whose server is gone. Used by tests of what looks at the share."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.needs import require, require_root

_FUSE = Path("/dev/fuse")
_MNT_DETACH = 2
_libc = ctypes.CDLL(None, use_errno=True)


class HungMount:
    """Whoever looks at what is under it waits until ``die``."""

    def __init__(self, folder: Path) -> None:
        self._connection: int | None = os.open(_FUSE, os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self._connection},rootmode=40000,user_id=0,group_id=0,allow_other"
        _checked(_libc.mount(b"hung", bytes(folder), b"fuse", 0, options.encode()))

    def die(self) -> None:
        """End the server: whoever waits gets an error, and whoever comes later."""
        if self._connection is not None:
            os.close(self._connection)
            self._connection = None


@contextmanager
def hung_mount(folder: Path) -> Iterator[HungMount]:
    """Cover a folder with a mount that does not answer. Skips the test where this process may not mount."""
    require_root()
    require(_FUSE.exists(), str(_FUSE))
    mount = HungMount(folder)
    try:
        yield mount
    finally:
        mount.die()
        _checked(_libc.umount2(bytes(folder), _MNT_DETACH))


def _checked(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
