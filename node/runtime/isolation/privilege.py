"""The rights of root, kept in the saved user id and used for a moment at a time.

Between these moments the shepherd acts as the user of the node's daemons: so a link that this user plants leads to no
file of root, and files are owned as they are without isolation.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


def lower(uid: int, gid: int) -> None:
    """Act as this user from now on. Needs root. Raises ValueError for root: tasks would be in its group."""
    if uid == 0 or gid == 0:
        raise ValueError("the node's folder belongs to root; users can be isolated only if it belongs to another user")
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, 0)


@contextmanager
def raised() -> Iterator[None]:
    """Act as root inside the block, if this process called ``lower``. Otherwise nothing changes."""
    own = os.geteuid()
    if own == 0 or os.getresuid()[2] != 0:
        yield
        return
    os.seteuid(0)
    try:
        yield
    finally:
        os.seteuid(own)


def become_root() -> None:
    """Be root for good. Called in a child process only."""
    os.seteuid(0)
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
