"""Decides whether a standby may become the master. Pure. Used by ``failover``.

Nobody compares two clocks: every number is a duration, measured by the machine that reports it, up to about now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grass.store.standby_gate import PATIENCE

APART = PATIENCE - 2.5
"""Seconds for which a node may have heard of the master after the standby had everything. The master acknowledged
nothing alone until then: a write waits ``PATIENCE`` for the standby first, and nodes hear of the master every 2 s."""


LIVES = 5.0
"""Seconds after its last word for which a master counts as one that lives, and only this machine does not reach."""


@dataclass(frozen=True)
class Evidence:
    """What is known before a failover. ``whole``: the standby has ever had everything. ``needed``: the master refuses
    writes without its standby. ``reached``: the standby has all that the stopped master has; None: the master does not
    answer. ``missing``: bytes that it lacks then. ``alone``: whether the master acknowledged without the standby when
    that had everything last. ``silent``: seconds since then; None: unknown. ``heard``: seconds since each node that
    could be asked heard of the master."""

    whole: bool
    needed: bool
    reached: bool | None = None
    missing: int = 0
    alone: bool = False
    silent: float | None = None
    heard: Sequence[float] = ()


@dataclass(frozen=True)
class Verdict:
    """What follows. ``why``: why the standby is not known to have everything; empty: it is. ``behind``: seconds that it
    may lack."""

    why: str = ""
    behind: float = 0.0
    possible: bool = True
    """False: not even with ``--force``."""


def judged(found: Evidence) -> Verdict:
    if not found.whole:
        return Verdict(
            "it has never had all of the master's data, or has not written it to its disk yet", possible=False
        )
    if found.reached is not None:
        if found.reached:
            return Verdict()
        return Verdict(f"it lacks the last {found.missing} bytes of the master's writes", found.silent or 0.0)
    last = min((each for each in (found.silent, *found.heard) if each is not None), default=LIVES)
    if last < LIVES:
        return Verdict(
            f"the master was heard {last:.0f} s ago, so it lives, although this machine does not reach it; stop it"
        )
    if found.needed:
        return Verdict()
    if found.alone:
        return Verdict(
            "it was catching up when the master ended, and may lack what the master acknowledged meanwhile",
            found.silent or 0.0,
        )
    if found.silent is None:
        return Verdict("it was restarted since it last heard of the master, so nobody can say how far it is")
    if not found.heard:
        return Verdict(
            f"it last heard of the master {found.silent:.0f} s ago, and no node could be asked whether the master went "
            "on without it",
            found.silent,
        )
    alone = found.silent - min(found.heard)
    if alone <= APART:
        return Verdict()
    return Verdict(f"it is {alone:.0f} s behind: for so long the master went on without it", alone)
