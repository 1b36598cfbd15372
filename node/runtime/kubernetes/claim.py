"""Decides what an agent does about the lease of its node. Pure; used by ``lease``.

A lease says which of several agents acts, and for how long after its last renewal. The clocks of agents are not
compared: an agent counts a holder as gone once the lease has not changed for its duration, by its own steady clock.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from grass.kubernetes.objects import Lease


class Times(NamedTuple):
    """Seconds, as usual for Kubernetes. ``lasts``: from a renewal to the end of the claim. ``begins``: from a renewal,
    in which requests may begin that change something. ``every``: between renewals."""

    lasts: float = 15.0
    begins: float = 10.0
    every: float = 2.0


class Step(Enum):
    """ANEW: another agent has acted meanwhile; what this one knows and has queued is old, and it must begin anew."""

    CREATE = "create"
    TAKE = "take"
    RENEW = "renew"
    WAIT = "wait"
    ANEW = "anew"


class Claim:
    """One agent's claim. ``identity``: differs between agents that may live at one time. Times are steady seconds."""

    def __init__(self, identity: str, times: Times) -> None:
        self.identity = identity
        self._times = times
        self._renewed: float | None = None
        self._seen = ""
        self._seen_at = 0.0

    def next(self, found: Lease | None, now: float) -> Step:
        """``found`` None: there is no lease."""
        if found is None:
            return Step.CREATE
        holder = found.spec.holder_identity
        if holder == self.identity:
            return Step.RENEW
        if self._renewed is not None:
            return Step.ANEW
        if found.metadata.resource_version != self._seen:
            self._seen, self._seen_at = found.metadata.resource_version, now
        lasts = found.spec.lease_duration_seconds or self._times.lasts
        return Step.TAKE if not holder or now - self._seen_at >= lasts else Step.WAIT

    def renewed(self, sent: float) -> None:
        """Note that the server took a renewal that was sent then."""
        self._renewed = sent

    def left(self, now: float) -> float:
        """Return the seconds that a request may take that changes something; 0: none may begin."""
        if self._renewed is None or now - self._renewed > self._times.begins:
            return 0.0
        return self._renewed + self._times.lasts - now
