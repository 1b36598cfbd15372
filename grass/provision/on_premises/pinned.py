"""What a node knows of its master for following it by itself: a file that only root can change.

The record of the node is in a folder of the user `grass`, who could put another one in its place. Used by
``following``, ``follow_on_host``, ``hearing`` and ``join_steps``.
"""

from __future__ import annotations

import msgspec

from grass.provision.on_premises.join_record import Own
from grass.wire.codec import Form


class Pinned(msgspec.Struct, frozen=True, kw_only=True):
    """Where the master was at the last join. ``key``: thumbprint of its key. The rest is as of ``Own``."""

    key: str
    urls: tuple[str, ...]
    others: tuple[str, ...] = ()
    number: tuple[int, int] = (0, 0)

    @classmethod
    def of(cls, own: Own) -> Pinned:
        return cls(key=own.key, urls=tuple(own.urls), others=tuple(own.others), number=own.number)


PINNED: Form[Pinned] = Form(Pinned)
