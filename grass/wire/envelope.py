"""The fields of a ticket or report that every protocol has: enough to answer a peer with undecodable messages.

Read by the master-agent.
"""

from __future__ import annotations

import msgspec

from grass.errors import UndecodableError
from grass.wire.codec import Form


class Envelope(msgspec.Struct, frozen=True):
    kind: str = ""
    protocol: int = 0
    """Of a hello, the sender's protocol. 0: not stated."""
    version: str = ""
    """Of a hello, the sender's version of Grass."""


class Undecodable(msgspec.Struct, frozen=True):
    """Represents a ticket or report of unknown kind or wrong form, so that it is refused by name and not dropped."""

    envelope: Envelope
    problem: str
    """What is wrong with it, and where."""


_ENVELOPE: Form[Envelope] = Form(Envelope)


def undecodable(text: str, error: UndecodableError) -> Undecodable:
    """Return what stands for a text that cannot be decoded."""
    try:
        envelope = _ENVELOPE.decode(text)
    except UndecodableError:
        envelope = Envelope()
    return Undecodable(envelope, str(error))
