"""The answer to a ticket of kind ``plan``: where a job would run if it were submitted now.

Written by the master-agent, read by the API server.
"""

from __future__ import annotations

import msgspec

from grass.model.job import Condition
from grass.model.reasons import Reason
from grass.wire.codec import Form


class PlannedNode(msgspec.Struct, frozen=True):
    """Tasks of a component on one node."""

    node: str
    count: int
    """Tasks that would run there."""
    devices: tuple[tuple[int, int], ...] = ()
    """(device id, thousandths) allocated to them in total."""


class PlannedComponent(msgspec.Struct, frozen=True):
    """Where the tasks of a component would run."""

    replicas: int
    at_once: int
    """Tasks that may run at once, by its ``parallelism``."""
    depends_on: dict[str, Condition] = {}
    nodes: tuple[PlannedNode, ...] = ()
    reason: Reason | None = None
    """Why the other tasks would wait."""


class PlannedPreemption(msgspec.Struct, frozen=True):
    """A job whose tasks would be preempted."""

    job: str
    """Name."""
    user: str
    count: int
    """Number of its tasks that would be preempted."""


class PlanAnswer(msgspec.Struct, frozen=True):
    """The whole answer.

    On the stream ``plans`` (fields ``question``, ``body``), with the commit that takes the ticket.
    """

    components: dict[str, PlannedComponent] = {}
    preemptions: tuple[PlannedPreemption, ...] = ()
    reason: Reason | None = None
    """What the job would wait for, apart from free resources, or why it could not be planned."""


PLAN_ANSWER: Form[PlanAnswer] = Form(PlanAnswer)
