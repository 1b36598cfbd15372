"""A time on a steady clock; it is meaningless after a reboot of the machine.

Used by this package and ``master.agent``.
"""

from __future__ import annotations

from typing import NamedTuple


class Moment(NamedTuple):
    """A time of the steady clock of one boot. As JSON: ``[at, boot]``."""

    at: float
    """Steady seconds."""
    boot: str
    """Id of the boot to which ``at`` belongs."""
