"""How far the standby of a master is: in the store, written by the master-agent, and in the API's status."""

from __future__ import annotations

import msgspec

from grass.wire.codec import Form


class StandbyView(msgspec.Struct, frozen=True):
    """The standby, as the master sees it."""

    address: str
    """The machine, as the settings name it."""
    state: str
    """``in step``, ``behind`` or ``away``."""
    behind: float
    """Seconds of writes that it does not have. While it is away: since it left."""
    url: str = ""
    """Of the API there, after a failover."""
    time: float = 0.0
    """When this was seen, in wall seconds of the master."""
    witness: str = ""
    """The node with whose vote it takes over by itself; empty: it never does."""
    why: str = ""
    """Why it would not take over by itself now. Empty: it would, if it has a witness."""


STANDBY: Form[StandbyView] = Form(StandbyView)
