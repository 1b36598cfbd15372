"""The record of an operation: one change of a job's intent, such as a scaling. Written by the master-agent.

Hash ``operations:<job id>``: operation id → record. Of the ended operations, the newest are kept.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import msgspec

from grass.model.reasons import ReasonCode
from grass.wire.codec import Form
from grass.wire.moment import Moment

GRASS = "grass"
"""The author of operations that the cluster files by itself."""


class OperationKind(str, Enum):
    """What is changed. The cluster itself files DRAIN, REQUEUE, and REPLACE for lost and slow tasks."""

    SCALE = "scale"
    REPLACE = "replace"
    RESTART = "restart"
    SUSPEND = "suspend"
    RESUME = "resume"
    DRAIN = "drain"
    REQUEUE = "requeue"


class OperationState(str, Enum):
    """How far it is. Not every kind goes through every state."""

    WAITING = "WAITING"  # behind earlier operations on the same component or job
    RESERVING = "RESERVING"  # new members wait for resources
    STARTING = "STARTING"  # new members start, or a replaced one
    DRAINING = "DRAINING"  # members that leave may end by themselves
    STOPPING = "STOPPING"  # tasks are being stopped
    ENDED = "ENDED"


class Outcome(str, Enum):
    """How an operation ended."""

    DONE = "DONE"
    PARTIALLY_DONE = "PARTIALLY_DONE"
    ROLLED_BACK = "ROLLED_BACK"
    TIMED_OUT = "TIMED_OUT"
    CANCELLED = "CANCELLED"
    REJECTED = "REJECTED"


class ScaleRule(str, Enum):
    """Why the autoscaler (``master.autoscale``) changed a size."""

    GROW = "grow"  # machines were idle
    GIVE_BACK = "give-back"  # a job of higher priority waited
    UNDO = "undo"  # a growth gained too little; the component does not grow beyond that size again


class Cause(NamedTuple):
    """Why Grass places tasks again. Tasks with the same cause share one operation."""

    code: ReasonCode
    by: str
    """The node that is lost or drained, the id of the job that they are preempted for, or the machine of Kubernetes
    whose pods are ended."""


class OperationRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One operation on a job.

    ``added``, ``removed``: tasks, as ``<component>.<index>``.
    """

    id: str
    job_id: str
    component: str | None = None
    """None: it concerns the whole job."""
    kind: OperationKind
    state: OperationState = OperationState.WAITING
    author: str
    """The user, or ``grass`` for what the cluster does by itself."""
    reason: str = ""
    """Why it was filed, if its author says so."""
    from_size: int | None = None
    to_size: int | None = None
    filed: float
    """Seconds since the epoch, as ``ended``."""
    deadline: Moment | None = None
    """When the present state ends at the latest. Set while it is active."""
    ended: float | None = None
    outcome: Outcome | None = None
    message: str = ""
    """What happens now, or how it ended."""
    generation: int | None = None
    """The generation of the membership that it committed last."""
    added: tuple[str, ...] = ()
    """Tasks that join, or start again."""
    removed: tuple[str, ...] = ()
    """Tasks that leave."""
    number: int = 0
    """Its position among the operations of the job, from 1. Only the master-agent reads this field and those below."""
    patience: float | None = None
    """Seconds that the user gave it; None: the default."""
    until: Moment | None = None
    """When a replacement ends at the latest, with all its states, if the user gave it a deadline."""
    partial: bool = False
    """Whether a scale-out may commit a part of the new members."""
    avoid: str | None = None
    """The node on which a replaced task must not start again."""
    size: int | None = None
    """The requested size. This and the next two fields are as the user gave them."""
    delta: int | None = None
    named: tuple[str, ...] = ()
    """Tasks to remove, or to replace."""
    cause: Cause | None = None
    """Set if Grass filed it for lost, drained or preempted tasks."""
    rule: ScaleRule | None = None
    """Set if the autoscaler filed it."""

    @property
    def unfinished(self) -> bool:
        return self.state is not OperationState.ENDED

    @property
    def repairs(self) -> bool:
        """Return whether it only records that lost or drained tasks are placed again. It waits for no other."""
        lost = self.kind is OperationKind.REPLACE and self.author == GRASS and not self.named
        return lost or self.kind is OperationKind.DRAIN

    @property
    def cancellable(self) -> bool:
        """Return whether it can be cancelled: it waits, or its new tasks are not members yet."""
        joins = self.state in (OperationState.RESERVING, OperationState.STARTING)
        return self.state is OperationState.WAITING or (joins and self.kind is OperationKind.SCALE)

    @property
    def halts(self) -> bool:
        """Return whether it is ending all tasks of the job now."""
        whole = self.kind in (OperationKind.SUSPEND, OperationKind.RESTART, OperationKind.REQUEUE)
        return whole and self.state in (OperationState.DRAINING, OperationState.STOPPING)


OPERATION_RECORD: Form[OperationRecord] = Form(OperationRecord)
