"""Tickets: durable requests to the master-agent, on the stream ``tickets``.

The API writes a ticket in the same step that accepts the request.
The field ``body`` of an entry is one of these; ``kind`` in it says which.
"""

from __future__ import annotations

import msgspec

from grass.model.job import Job
from grass.model.schedule import Schedule
from grass.wire.codec import Form
from grass.wire.job_record import JobRecord


class StartJob(msgspec.Struct, frozen=True, tag_field="kind", tag="start"):
    job: Job
    record: JobRecord
    """The job's first record, as it was stored with this ticket."""


class StopJob(msgspec.Struct, frozen=True, tag_field="kind", tag="stop"):
    id: str
    user: str
    """The requesting user, as in all tickets."""
    grace: float | None = None
    """Seconds between TERM and KILL; None: those of the components."""


class DeleteJob(msgspec.Struct, frozen=True, tag_field="kind", tag="delete"):
    """Stop the job if it is active, then delete it and its logs."""

    id: str
    user: str


class StartSchedule(msgspec.Struct, frozen=True, tag_field="kind", tag="schedule-start"):
    schedule: Schedule
    user: str


class StopSchedule(msgspec.Struct, frozen=True, tag_field="kind", tag="schedule-stop"):
    name: str
    user: str


class PlanJob(msgspec.Struct, frozen=True, tag_field="kind", tag="plan"):
    """Ask where a job would run. Changes nothing."""

    question: str
    """Id of the question, which the answer repeats."""
    job: Job
    user: str


class NodeOffer(msgspec.Struct, frozen=True):
    """Facts about a node before its first hello."""

    address: str = ""
    labels: dict[str, str] = {}
    path: tuple[str, ...] = ()
    runtimes: tuple[str, ...] = ("process",)


class JoinNode(msgspec.Struct, frozen=True, tag_field="kind", tag="node-join"):
    """Create the node's record (JOINING) and its redis user."""

    name: str
    digest: str
    """SHA-256 of the password of its redis user, in hexadecimal."""
    user: str = ""
    node: NodeOffer = NodeOffer()


class CordonNode(msgspec.Struct, frozen=True, tag_field="kind", tag="node-cordon"):
    """Place no new tasks there."""

    node: str
    user: str


class UncordonNode(msgspec.Struct, frozen=True, tag_field="kind", tag="node-uncordon"):
    """End cordon and drain, and accept the present errors of its devices."""

    node: str
    user: str


class DrainNode(msgspec.Struct, frozen=True, tag_field="kind", tag="node-drain"):
    node: str
    user: str
    deadline: float | None = None
    """Seconds from now after which its tasks are stopped and placed elsewhere. None: they run to their end."""


class RemoveNode(msgspec.Struct, frozen=True, tag_field="kind", tag="node-remove"):
    """Drain the node, and remove it from the cluster when it is empty."""

    node: str
    user: str
    force: bool = False
    """Remove it at once; its tasks are placed again."""


NodeTicket = CordonNode | UncordonNode | DrainNode | RemoveNode
Ticket = StartJob | StopJob | DeleteJob | StartSchedule | StopSchedule | PlanJob | JoinNode | NodeTicket

TICKET: Form[Ticket] = Form(Ticket)
