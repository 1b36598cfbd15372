"""Keyrings of tasks. A process has the session keyring of its parent, and may use each key in it as if it were its own.

So every task gets an empty one. Used by ``spawn``, ``process.beside``,
``isolation.starter`` and ``isolation.tasks``.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress

from node.runtime.system_calls import number

_JOIN_SESSION_KEYRING = 1
_libc = ctypes.PyDLL(None)


def leave_session_keyring() -> None:
    """Give this thread, and all that it starts, a new session keyring.

    It keeps the present one where the kernel refuses: it has no keys, or a filter forbids their use to the programs
    that are started, too; or this user has too many keys already, and then the present one is another task's.
    """
    with suppress(OSError):
        _libc.syscall(number("keyctl"), _JOIN_SESSION_KEYRING, None)
