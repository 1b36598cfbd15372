"""A time on a steady clock, which means nothing after the machine was started again."""

from __future__ import annotations

from typing import NamedTuple


class Moment(NamedTuple):
    """As JSON: ``[at, boot]``."""

    at: float
    """Steady seconds."""
    boot: str
    """Id of the boot that they belong to."""
