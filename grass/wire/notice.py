"""``Notice``: where the master of a cluster is. The master signs it (``grass.api.notice``).

A fenced old master answers its clients with the notice of the new one, and a machine that SSH does not reach gets it
as a file or from an old master. Used by ``grass.api`` and ``master.api``.
"""

from __future__ import annotations

import msgspec

from grass.wire.codec import Form


class Notice(msgspec.Struct, frozen=True):
    """Where a master's API is. Of two notices of a cluster, the one with the higher ``number`` is the later."""

    cluster: str
    """Name of the cluster."""
    urls: tuple[str, ...]
    """URLs of the API, in the order to try."""
    term: int
    """How often the cluster was restored or failed over."""
    moves: int
    """How often its master was moved as planned."""

    @property
    def number(self) -> tuple[int, int]:
        return self.term, self.moves


NOTICE: Form[Notice] = Form(Notice)
