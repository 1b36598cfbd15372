"""Tickets: durable requests to the master-agent, on the stream ``tickets``.

The API writes a ticket in the same step that accepts the request.
The field ``body`` of an entry is one of these; ``kind`` in it says which. Taken by the master-agent.
"""

from __future__ import annotations

import msgspec

from grass.model.job import Job
from grass.model.job_settings import JobSettings
from grass.model.runtime import PROCESSES_ONLY
from grass.model.schedule import Schedule
from grass.wire.checks import NodeCheck
from grass.wire.codec import Form
from grass.wire.finding import Finding
from grass.wire.job_record import JobRecord
from grass.wire.operation_record import ScaleRule


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a call of the API asked for."""

    address: str = ""
    """Address of the peer of the call. Events that the ticket causes repeat it. Empty if unknown."""


class StartJob(msgspec.Struct, frozen=True, tag_field="kind", tag="start"):
    """Queue an accepted job."""

    job: Job
    record: JobRecord
    """The job's first record, as it was stored with this ticket."""


class StopJob(Asked, frozen=True, tag_field="kind", tag="stop"):
    """Stop all tasks of a job, and end it."""

    id: str
    user: str
    """The requesting user, as in all tickets."""
    grace: float | None = None
    """Seconds between TERM and KILL; None: those of the components."""


class StopTasks(Asked, frozen=True, tag_field="kind", tag="stop-tasks"):
    """Stop tasks of a job. They do not start again; the rest of the job goes on."""

    id: str
    user: str
    tasks: tuple[str, ...]
    """Each a component or ``<component>.<index>``."""
    grace: float | None = None


class HoldJob(Asked, frozen=True, tag_field="kind", tag="hold"):
    """Start nothing of a queued job until it is released."""

    id: str
    user: str


class ReleaseJob(Asked, frozen=True, tag_field="kind", tag="release"):
    """Let a job that was held start again."""

    id: str
    user: str


class SetJob(Asked, frozen=True, tag_field="kind", tag="set"):
    """Change settings of a job that has not ended."""

    id: str
    user: str
    settings: JobSettings


class DeleteJob(Asked, frozen=True, tag_field="kind", tag="delete"):
    """Stop the job if it is active, then delete it and its logs."""

    id: str
    user: str


class ScaleJob(Asked, frozen=True, kw_only=True, tag_field="kind", tag="scale"):
    """File an operation on a component: change its size. The fields are those of ``calls.OperationRequest``."""

    job_id: str
    id: str
    """Id of the operation, as in the next four tickets."""
    user: str
    component: str
    size: int | None = None
    delta: int | None = None
    """More or fewer tasks than there are when the operation begins."""
    remove: tuple[str, ...] = ()
    """Tasks to remove, as ``<component>.<index>``."""
    partial: bool = False
    deadline: float | None = None
    """Seconds."""
    reason: str = ""
    rule: ScaleRule | None = None
    """Set if the autoscaler files it."""


class SuspendJob(Asked, frozen=True, kw_only=True, tag_field="kind", tag="suspend"):
    """File an operation: stop all tasks of the job, and release its resources until it is resumed."""

    job_id: str
    id: str
    user: str
    deadline: float | None = None
    reason: str = ""


class ResumeJob(Asked, frozen=True, kw_only=True, tag_field="kind", tag="resume"):
    """File an operation: queue a suspended job again."""

    job_id: str
    id: str
    user: str
    reason: str = ""


class RestartJob(Asked, frozen=True, kw_only=True, tag_field="kind", tag="restart"):
    """File an operation: stop all tasks, and start the whole job again from its beginning."""

    job_id: str
    id: str
    user: str
    deadline: float | None = None
    reason: str = ""


class ReplaceTask(Asked, frozen=True, kw_only=True, tag_field="kind", tag="replace"):
    """File an operation: stop a task, and start it again on another node."""

    job_id: str
    id: str
    user: str
    task: str
    deadline: float | None = None
    reason: str = ""


class CancelOperation(Asked, frozen=True, kw_only=True, tag_field="kind", tag="operation-cancel"):
    """Cancel an operation that waits, or whose new tasks are not members yet."""

    job_id: str
    id: str
    user: str


class StartSchedule(Asked, frozen=True, tag_field="kind", tag="schedule-start"):
    """Start a schedule."""

    schedule: Schedule
    user: str


class StopSchedule(Asked, frozen=True, tag_field="kind", tag="schedule-stop"):
    """Stop a schedule: a cron rule starts no more runs, and the jobs of a batch are stopped."""

    name: str
    user: str


class PauseSchedule(Asked, frozen=True, tag_field="kind", tag="schedule-pause"):
    """Let a cron rule start nothing until it is resumed. Its present run goes on."""

    name: str
    user: str
    request: str = ""
    """Id of the request, as in the next two tickets: a ticket with a known one has no effect. "": none."""


class ResumeSchedule(Asked, frozen=True, tag_field="kind", tag="schedule-resume"):
    """Let a paused schedule start jobs again."""

    name: str
    user: str
    request: str = ""


class RunSchedule(Asked, frozen=True, tag_field="kind", tag="schedule-run"):
    """Start a cron rule's job now, or the jobs of a finished batch again."""

    name: str
    user: str
    request: str = ""


class DeleteSchedule(Asked, frozen=True, tag_field="kind", tag="schedule-delete"):
    """Remove a schedule. Its jobs stay."""

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
    runtimes: tuple[str, ...] = PROCESSES_ONLY


class JoinNode(Asked, frozen=True, tag_field="kind", tag="node-join"):
    """Create the node's record (JOINING) and its redis user."""

    name: str
    digest: str
    """SHA-256 of the password of its redis user, in hexadecimal."""
    user: str = ""
    node: NodeOffer = NodeOffer()


class CordonNode(Asked, frozen=True, tag_field="kind", tag="node-cordon"):
    """Place no new tasks there."""

    node: str
    user: str


class UncordonNode(Asked, frozen=True, tag_field="kind", tag="node-uncordon"):
    """End cordon and drain, and accept the present errors of its devices."""

    node: str
    user: str


class NodeChecked(Asked, frozen=True, tag_field="kind", tag="node-checked"):
    """Take what a check found about the node: keep it, put the node or devices of it into quarantine, or end that."""

    node: str
    user: str
    check: NodeCheck


class ReleaseNode(Asked, frozen=True, tag_field="kind", tag="node-release"):
    """End what checks found about the node, without a check."""

    node: str
    user: str


class DrainNode(Asked, frozen=True, tag_field="kind", tag="node-drain"):
    node: str
    user: str
    deadline: float | None = None
    """Seconds from now after which its tasks are stopped and placed elsewhere. None: they run to their end."""


class StopNode(Asked, frozen=True, tag_field="kind", tag="node-stop"):
    """Note that the machine of a drained node is turned off. It is STOPPED until the machine boots again."""

    node: str
    user: str
    why: str = ""
    """What follows from it, for people: what is still paid, how it starts again, or why it did not."""


class RemoveNode(Asked, frozen=True, tag_field="kind", tag="node-remove"):
    """Drain the node, and remove it from the cluster when it is empty."""

    node: str
    user: str
    force: bool = False
    """Remove it at once; its tasks are placed again."""


class SuspectNode(msgspec.Struct, frozen=True, tag_field="kind", tag="node-suspect"):
    """Cut the node off: it did what no sound node does. Filed by the log collector."""

    node: str
    user: str
    problem: str


class KeptFiles(msgspec.Struct, frozen=True, tag_field="kind", tag="kept-files"):
    """What the users' files in the share take. Filed by the monitor; it replaces what was known."""

    users: dict[str, dict[str, int]]
    """User → ``space`` (bytes) and ``files``, as in a quota."""


class NoteFinding(msgspec.Struct, frozen=True, tag_field="kind", tag="finding"):
    """Record an event about what a rule found. Filed by the monitor."""

    finding: Finding


class StepSpeeds(msgspec.Struct, frozen=True, tag_field="kind", tag="step-speeds"):
    """Note how fast nodes are by the steps that tasks reported lately. Filed by the monitor."""

    nodes: dict[str, float]
    """Node → its speed; 1.0 is the median of nodes like it."""


MonitorTicket = KeptFiles | NoteFinding | StepSpeeds
NodeTicket = CordonNode | UncordonNode | NodeChecked | ReleaseNode | DrainNode | StopNode | RemoveNode | SuspectNode
QueuedTicket = HoldJob | ReleaseJob
JobTicket = StopJob | StopTasks | DeleteJob | SetJob | QueuedTicket
ScheduleChange = PauseSchedule | ResumeSchedule | RunSchedule | DeleteSchedule
ScheduleTicket = StartSchedule | StopSchedule | ScheduleChange
OperationTicket = ScaleJob | SuspendJob | ResumeJob | RestartJob | ReplaceTask
AskedTicket = (
    JobTicket
    | OperationTicket
    | CancelOperation
    | ScheduleTicket
    | JoinNode
    | CordonNode
    | UncordonNode
    | NodeChecked
    | ReleaseNode
    | DrainNode
    | StopNode
    | RemoveNode
)
FREEING = (
    *(StopJob, StopTasks, DeleteJob, HoldJob, SuspendJob, CancelOperation),
    *(StopSchedule, PauseSchedule, DeleteSchedule),
    *(CordonNode, DrainNode, StopNode, RemoveNode),
)
"""Tickets that end something, or give something back: what one needs when the disk is full."""
Ticket = StartJob | AskedTicket | PlanJob | SuspectNode | MonitorTicket

TICKET: Form[Ticket] = Form(Ticket)
