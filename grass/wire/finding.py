"""What a rule of the monitor found: what is wrong with a job, why, how sure that is, and the evidence.

In the hash ``findings``: job id → its findings that hold now. Written by the monitor, read by the API server; a ticket
takes one to the master-agent, which makes an event of it.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from grass.wire.codec import Form


class FindingState(str, Enum):
    """How far a finding is."""

    SUSPECTED = "SUSPECTED"  # it held at the end of one window
    CONFIRMED = "CONFIRMED"  # it held at the end of two, with the same members
    RESOLVED = "RESOLVED"  # the job goes on, or its members are others


class Cause(str, Enum):
    """Why a job stands still, or is slow."""

    STRAGGLER_CODE = "straggler-code"  # the program of one member, or of a few, is elsewhere than all others
    DEADLOCK = "deadlock"  # members wait in different collective operations, or for locks
    DATA_LOADER = "data-loader"
    STORAGE = "storage"
    NETWORK = "network"
    GPU = "gpu"
    SLOW_MEMBER = "slow-member"  # a member is slower than the others; the component does not stand still
    NODE_CHECK = "node-check"  # a check of nodes that the job makes itself names a node as at fault
    DEAD_PEER = "dead-peer"  # a member's process has ended, and the others wait for it
    UNKNOWN = "unknown"


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A component of a job stands still, a member of it is slow, or on a node at fault. ``generation``: names
    whom it is about; others make it another finding."""

    job_id: str
    component: str
    generation: str
    state: FindingState
    cause: Cause
    tasks: tuple[str, ...] = ()
    """Whom it accuses; empty: nobody in particular."""
    what: str
    """One sentence: what is wrong."""
    why: str
    """One sentence: the cause."""
    sure: float
    """How sure the cause is, from 0 to 1."""
    evidence: tuple[str, ...] = ()
    since: float
    """When the component made progress last, in seconds since the epoch, as ``at``."""
    at: float
    """When this was found."""
    action: str = ""
    """What was done about it, or is left to the user."""

    @property
    def text(self) -> str:
        """Return both sentences, and the action."""
        return " ".join(filter(None, (self.what, self.why, self.action)))


FINDINGS: Form[tuple[Finding, ...]] = Form(tuple[Finding, ...])
