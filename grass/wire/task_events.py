"""Events of attempts, reported by their node. In order for each attempt; repeats are harmless.

Sent by the node-agent, taken by the master-agent.
"""

from __future__ import annotations

import msgspec

from grass.model.reasons import Reason
from grass.wire.usage import TaskTotals


class Started(msgspec.Struct, frozen=True, tag_field="event", tag="started"):
    """Its process, or its container, runs."""

    key: str
    """Attempt key."""
    at: float
    """Seconds since the epoch, by the node's clock."""
    pid: int | None = None
    prepared: float | None = None
    """When its image was there, by the node's clock. None: it did not wait for an image."""
    software: dict[str, str] | None = None
    """``image``: the digest of its image; versions of its GPU ``driver``, of ``grass`` and of the ``kernel``;
    ``machine``: that of Kubernetes on which its pod is."""


class Waiting(msgspec.Struct, frozen=True, tag_field="event", tag="waiting"):
    """It cannot start yet, or runs and is not ready yet."""

    key: str
    reason: Reason | None = None
    """None: it no longer waits."""


class Ready(msgspec.Struct, frozen=True, tag_field="event", tag="ready"):
    """Its readiness check has passed."""

    key: str


class Ended(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="ended"):
    """Implies ``started``. An attempt that could not be started has code 127 (not found) or 126."""

    key: str
    at: float
    """Seconds since the epoch, by the node's clock."""
    code: int | None = None
    """Exit code. None: ended by ``signal``, or unknown."""
    signal: int | None = None
    reason: Reason | None = None
    """Set if code or signal do not say everything: ``cannot-start``, ``exit-unknown``, ``node-rebooted``,
    ``node-stopped``, ``port-taken``, ``timeout``, ``unrecorded``."""
    started: float | None = None
    """Seconds since the epoch, by the node's clock."""
    sizes: dict[str, int] = {}
    """``stdout`` and ``stderr`` → bytes at which the log is complete."""
    stopped: bool = False
    """Whether it was asked to stop before it ended."""
    usage: TaskTotals | None = None
    """What the attempt used. None: not measured."""
    software: dict[str, str] | None = None
    """The same as in ``started``, which is left out if it ended at once. None: it never started."""
    cause: str = ""
    """What its output says of why it failed, in one line, without secrets. Empty: nothing, or it did not fail."""
    log_gaps: int = 0
    """Places in its output where lines are missing, because Kubernetes removed them before they were read."""


class Drained(msgspec.Struct, frozen=True, tag_field="event", tag="drained"):
    """It left the membership, and its framework has let it go: it may be stopped now."""

    key: str


class Located(msgspec.Struct, frozen=True, tag_field="event", tag="located"):
    """It has an address of its own, which other tasks of its job may use. Known before it starts."""

    key: str
    address: str


class Leaving(msgspec.Struct, frozen=True, tag_field="event", tag="leaving"):
    """It runs, and Kubernetes is ending its pod, as when a machine is drained. It has its grace until it ends."""

    key: str
    reason: Reason
    """``machine`` in its details: that on which its pod is."""


class Unclaimed(msgspec.Struct, frozen=True, tag_field="event", tag="unclaimed"):
    """After the store was restored from a backup: an attempt that began since, and that was not desired again."""

    key: str
    ended: float | None = None
    """Seconds since the epoch, by the node's clock. None: it runs, and is stopped now."""
    code: int | None = None
    """Exit code of one that ended."""


TaskEvent = Started | Waiting | Ready | Ended | Drained | Located | Leaving | Unclaimed


class TaskEvents(msgspec.Struct, frozen=True, tag_field="kind", tag="tasks"):
    """A report of the events since the previous one."""

    events: tuple[TaskEvent, ...]
