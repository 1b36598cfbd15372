"""What a master and its standby ask a witness: a node-api-server with a record of both (``grass.model.witness``).

Used by ``grass.supervision`` and ``node.api``.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from grass.model.witness import Record
from grass.wire.codec import Form


class MasterLives(msgspec.Struct, frozen=True):
    """A master shows that it lives."""

    term: int
    """Of its store: each failover makes the next."""
    version: int
    """Of the witness's record, as the master knows it."""
    alone: bool
    """Whether it acknowledges what its standby has not. With ``change``: whether it wants to."""
    change: bool = False
    """Whether the witness shall note this."""


class AskVote(msgspec.Struct, frozen=True):
    """A standby wants to take over from a master that it does not hear."""

    term: int
    standby: str
    """Its address."""


class WitnessAnswer(msgspec.Struct, frozen=True):
    """The witness's record, which is on its disk by then."""

    record: Record
    why: str = ""
    """Why not; empty: yes."""


@dataclass(frozen=True)
class KeptRecord(Record):
    """The file of a witness: its record, and the cluster that it is about."""

    cluster: str = ""
    """Thumbprint of the cluster's key: another cluster of the same name begins anew. Empty: not known."""

    @property
    def record(self) -> Record:
        return Record(self.term, self.version, self.alone, self.voted)


KEPT: Form[KeptRecord] = Form(KeptRecord)
