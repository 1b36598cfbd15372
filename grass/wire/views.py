"""The replies of the API, as JSON: one type per reply. The OpenAPI document is generated from them.

Replies about joining, commands beside tasks, events and usage are in modules of their own, ``*_views``.

A view is a record without fields that only the master-agent needs, redacted for its reader. A field that does not
apply is absent.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from grass.model.isolation import Isolation
from grass.model.job import Job
from grass.model.lifecycle import JobState, NodeState, TaskState
from grass.model.reasons import Reason
from grass.model.schedule import ScheduleKind
from grass.wire.event_views import EventView
from grass.wire.gpu import GpuDevice
from grass.wire.heartbeat import NodeUsage
from grass.wire.job_record import ComponentRecord, CurrentOperation
from grass.wire.operation_record import OperationKind, OperationState, Outcome
from grass.wire.plan_answer import PlannedComponent
from grass.wire.schedule_record import ScheduleState
from grass.wire.usage import TaskTotals


class SessionView(msgspec.Struct, frozen=True):
    """A session. Later calls are encrypted with its key."""

    session: str
    """Its id: 32 hexadecimal digits."""
    key: str
    """256 bits, base64url."""
    seconds: int
    """How long it lasts, at most."""
    protocol: int
    """What the server speaks."""
    version: str
    """Of Grass on the server."""


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """Times are seconds since the epoch."""

    id: str
    name: str
    user: str
    state: JobState
    reason: Reason | None
    """Why it waits, or how it ended."""
    submitted: float
    started: float | None
    ended: float | None
    exit_code: int | None
    counts: dict[TaskState, int]
    """Tasks by state."""
    components: dict[str, ComponentRecord]
    restarts: int
    schedule: str | None
    """Name of the schedule that started it."""
    operation: CurrentOperation | None
    """What it is being changed to now, such as another size."""
    warnings: tuple[str, ...]
    tags: dict[str, str]
    priority: int
    usage: TaskTotals | None
    """What its ended attempts used. None: nothing was measured."""
    dialect: str
    """Of its file: ``native``, ``maro``, ``TrainingJob`` or ``MarsJob``."""
    tries: int
    """Restarts of the whole job."""
    expires: float | None
    """When the finished job is removed; null: by the retention of the cluster."""
    held: str | None
    """The user who holds the queued job back."""
    rerun_of: str | None
    """Id of the run that this one repeats."""
    specification: Job | UnsetType = UNSET
    """Only of one job, where it was asked for: what its file said. Secrets in environments are redacted."""
    newer_deleted: str | UnsetType = UNSET
    """Only of one job that was asked for by name: the id of a newer run, which was deleted."""


class JobsView(msgspec.Struct, frozen=True):
    jobs: tuple[JobView, ...]
    total: int | None
    """How many such jobs the caller may see; None: not known, because names, tags or times select them. ``jobs`` is one
    page of them."""
    more: bool
    """Whether the page is full, so that there may be older jobs. A damaged record is left out of its page."""


class JobFileView(msgspec.Struct, frozen=True):
    """The file of a job. Secrets in it are redacted."""

    name: str
    """Of the file, without its folder."""
    text: str
    original: bool
    """Whether the user wrote it so. False: it was written from the specification, because the job was not started from
    a file, or the file was too long to be kept."""


class StartedView(msgspec.Struct, frozen=True):
    name: str
    id: str
    warnings: tuple[str, ...]


class TaskView(msgspec.Struct, frozen=True, kw_only=True):
    """One task of a job. Times are seconds since the epoch."""

    task: str
    component: str
    index: int
    state: TaskState
    attempt: int
    """Number of the newest attempt; 0: none yet."""
    node: str | None
    exit_code: int | None
    signal: int | None
    reason: Reason | None
    started: float | None
    ended: float | None
    ports: dict[str, int] | None
    restarts: int
    pid: int | None
    sizes: dict[str, int] | None
    """Bytes of stdout and stderr of the last ended attempt."""
    ready: bool | None
    gpus: tuple[tuple[int, int], ...] | None
    """(device id, thousandths of it) of each device."""
    usage: TaskTotals | None
    """What its ended attempts used together. None: nothing was measured."""
    software: dict[str, str] | None
    """Of its newest attempt: ``image``, its digest; versions of the GPU ``driver``, ``grass`` and the ``kernel``."""
    values: dict[str, str] | UnsetType = UNSET
    """Its values of `matrix`, or its entry of `from` as `entry`. Only in the list of a job's tasks."""


class TasksView(msgspec.Struct, frozen=True):
    tasks: tuple[TaskView, ...]


class AttemptView(msgspec.Struct, frozen=True, kw_only=True):
    """One execution of a task."""

    task: str
    attempt: int
    node: str | None
    exit_code: int | None
    signal: int | None
    reason: Reason | None
    started: float | None
    ended: float | None
    """None: it goes on, or its end is unknown, because its node was lost."""
    assigned: float | None = None
    """When it got its node."""
    prepared: float | None = None
    """When its image was there. None: it did not wait for an image."""


class AttemptsView(msgspec.Struct, frozen=True):
    attempts: tuple[AttemptView, ...]
    after: str | None = None
    """Pass this on to get the next page; None: there is no more."""


class WhyGroup(msgspec.Struct, frozen=True):
    component: str
    state: TaskState
    count: int
    reason: Reason | None
    next: str | None
    """What would start them."""


class WhyView(msgspec.Struct, frozen=True):
    id: str
    name: str
    state: JobState
    reason: Reason | None
    groups: tuple[WhyGroup, ...]


class OperationView(msgspec.Struct, frozen=True, kw_only=True):
    """Times are seconds since the epoch. ``added``, ``removed``: tasks."""

    id: str
    job_id: str
    component: str | None
    """None: it concerns the whole job."""
    kind: OperationKind
    state: OperationState
    author: str
    """``grass``: the cluster itself."""
    reason: str
    from_size: int | None
    to_size: int | None
    filed: float
    ended: float | None
    outcome: Outcome | None
    message: str
    """What happens now, or how it ended."""
    generation: int | None
    cancellable: bool
    """Whether it can be cancelled now."""
    added: tuple[str, ...]
    removed: tuple[str, ...]
    warnings: tuple[str, ...] | UnsetType = UNSET


class OperationsView(msgspec.Struct, frozen=True):
    operations: tuple[OperationView, ...]


class OperationWaited(msgspec.Struct, frozen=True):
    operation: OperationView
    pause: float
    """Seconds after which to ask again, if too many wait already."""


class PlanEviction(msgspec.Struct, frozen=True):
    job: str | None
    """None: a job that the caller may not see."""
    count: int
    """Tasks that would be stopped."""


class PlanView(msgspec.Struct, frozen=True):
    name: str
    reason: Reason | None
    components: dict[str, PlannedComponent]
    evictions: tuple[PlanEviction, ...]
    warnings: tuple[str, ...]


class KeepAlive(msgspec.Struct, frozen=True):
    """An empty object of a stream, ``{}``: the server is working; or, as the last one, the stream ends."""


class WaitedView(msgspec.Struct, frozen=True):
    job: JobView
    pause: float | UnsetType = UNSET
    """In the last one: if the job has not ended, ask again after this many seconds."""


LogLines = tuple[str, int, str, float, str, bool, int]
"""Task, attempt, stream, time, text of lines, whether a newline ends the last one, bytes lost before the first."""


class LogPiece(msgspec.Struct, frozen=True):
    job_id: str
    lines: tuple[LogLines, ...]
    """Each: task, attempt, stream, time, text of one or more lines, whether a newline ends it, bytes lost before it."""
    cursor: dict[str, dict[str, int]]
    """Offsets by task and ``<attempt>/<stream>``. Merge them into those of earlier pieces."""
    live: bool
    """Everything that existed when the stream began has been sent."""
    open: bool
    """In the last piece: there may be more; ask again."""
    before: float | UnsetType = UNSET
    """Send it back with the cursor."""
    pause: float | UnsetType = UNSET
    """Seconds after which to ask again, if too many follow already."""


class RunView(msgspec.Struct, frozen=True):
    """One job that a schedule started."""

    id: str
    state: JobState
    started: float | None
    ended: float | None
    exit_code: int | None


class ScheduleView(msgspec.Struct, frozen=True, kw_only=True):
    """A batch of jobs, or a cron rule. Times are seconds since the epoch."""

    name: str
    state: ScheduleState
    kind: ScheduleKind
    user: str
    cron: str | None
    time_zone: str | None
    next: float | None
    last: float | None
    jobs: tuple[str, ...]
    reason: Reason | None
    runs: tuple[RunView, ...] | UnsetType = UNSET
    """Of those of ``jobs`` that are kept; in a list, only of the newest."""
    warnings: tuple[str, ...] | UnsetType = UNSET


class SchedulesView(msgspec.Struct, frozen=True):
    schedules: tuple[ScheduleView, ...]


class ResourcesView(msgspec.Struct, frozen=True, omit_defaults=True):
    cpu: int
    """Thousandths of a core."""
    memory: int
    """Bytes."""
    gpu: int
    """Thousandths of a device."""
    disk: int = 0
    """Bytes of scratch."""
    custom: dict[str, int] = {}


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """One node. None: the caller may not see it, or the node has not reported it yet."""

    name: str
    state: NodeState
    reason: Reason | None
    address: str | None
    resources: ResourcesView | None
    free: ResourcesView | None
    tasks: int
    usage: NodeUsage | None
    version: str | None
    seen: float | None
    gpus: tuple[GpuDevice, ...] | None
    labels: dict[str, str] | None
    path: tuple[str, ...] | None
    runtimes: tuple[str, ...] | None
    programs: tuple[str, ...] | None
    """Programs of frameworks on the PATH of its processes. None: not known."""
    versions: dict[str, str] | None
    """Versions of what tasks depend on: ``system``, ``kernel``, ``python``, ``driver`` (of GPUs), ``docker``."""
    conditions: tuple[Reason, ...] | None
    """Why it gets no tasks now; each ends by itself."""
    cordoned: bool | None
    quarantine: dict[str, str] | None
    """Device id → why no new task gets it."""


class NodesView(msgspec.Struct, frozen=True):
    nodes: tuple[NodeView, ...]


class NodeWaited(msgspec.Struct, frozen=True):
    node: NodeView | None
    """None: it was removed."""
    mark: str
    """Changes with the node. Send it as ``seen`` to wait for the next change."""
    pause: float
    """Seconds after which to ask again, if too many wait already."""


class NodeReached(msgspec.Struct, frozen=True):
    address: str | None
    """ADDRESS:PORT of the node's API. None: not known yet."""
    error: str | None
    """Why the master cannot reach it. None: it answers."""


class NodeAccepted(msgspec.Struct, frozen=True):
    """A change of a node was requested; wait for it with the mark."""

    node: NodeView
    mark: str
    """Of the node before the change."""


class ImageView(msgspec.Struct, frozen=True):
    name: str
    digest: str
    user: str
    """Who pushed it."""


class UserView(msgspec.Struct, frozen=True):
    name: str
    role: str
    state: str
    """active, invited (no key yet) or disabled."""
    created: float
    by: str
    invited_until: float | None
    """When an unused invitation expires. None: there is none."""
    jobs_stopped: int = 0
    """Jobs that this call stopped."""


class FilesOffer(msgspec.Struct, frozen=True):
    """Where a user's files key is accepted: by SSH, for files of the share only."""

    address: str
    port: int
    user: str
    host_key: str
    """As ``TYPE BASE64``."""


class OwnKeyView(UserView, frozen=True):
    files: FilesOffer | None = None
    """None: the cluster has no files over SSH."""


class UsersView(msgspec.Struct, frozen=True):
    users: tuple[UserView, ...]


class UserInvitation(msgspec.Struct, frozen=True):
    user: str
    role: str
    invitation: str
    """The text for `grass login`. It is a secret until it is used."""
    expires: float


class UserShare(msgspec.Struct, frozen=True):
    """One user's part of the cluster. Whoever has the least of ``share`` and ``past`` together is served first."""

    user: str
    share: float
    """Of the whole cluster, now: the largest part of any resource, from 0 to 1."""
    past: float
    """Of the recent use of all users, from 0 to 1. Older use counts less (``usage_half_life``)."""
    hours: float
    """Recent use, as hours of the whole cluster."""
    running: int
    """Jobs."""
    waiting: int
    """Jobs."""
    allocated: dict[str, int]
    """Resource → amount that the user's tasks have now."""
    quota: dict[str, int]
    """Resource → the most that all running tasks of the user may have; a resource without an entry is not limited."""


class QueuedView(msgspec.Struct, frozen=True):
    job: str | None
    """Id. None: a job that the caller may not see."""
    user: str
    priority: int
    submitted: float
    why: str
    """Why it has this position."""


class SharesView(msgspec.Struct, frozen=True):
    users: tuple[UserShare, ...]
    """Whose turn is first."""
    queue: tuple[QueuedView, ...]
    """Waiting jobs, in the order in which they are served."""


class StoreTrouble(msgspec.Struct, frozen=True):
    code: str
    message: str


class Removed(msgspec.Struct, frozen=True, omit_defaults=True):
    """Names of what is no longer there."""

    jobs: tuple[str, ...] = ()
    """Job ids."""
    nodes: tuple[str, ...] = ()
    schedules: tuple[str, ...] = ()


class ChangePiece(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What changed since the piece before, each thing as it is now."""

    cursor: str
    """Send it back as ``after`` to continue here."""
    time: float
    """The server's time: seconds since the epoch."""
    snapshot: bool = False
    """Forget all that was known. This piece and those up to ``complete`` have all that there is."""
    complete: bool = True
    """False: more pieces of the snapshot follow."""
    jobs: tuple[JobView, ...] = ()
    tasks: tuple[TaskView, ...] = ()
    """Of the job that is watched."""
    nodes: tuple[NodeView, ...] = ()
    schedules: tuple[ScheduleView, ...] = ()
    events: tuple[EventView, ...] = ()
    removed: Removed = Removed()
    counts: dict[JobState, int] | UnsetType = UNSET
    """Jobs by state that the caller may see; a snapshot has only the newest of them."""
    store: StoreTrouble | UnsetType | None = UNSET
    """Why the store refuses writes; None: it accepts them."""
    pause: float | UnsetType = UNSET
    """In the last piece: ask again after so many seconds."""


class DiskView(msgspec.Struct, frozen=True):
    """Of a machine; in bytes. ``free``: for programs that are not root's."""

    holds: str
    """What is on it: ``state``, ``logs``, or ``state and logs``."""
    free: int
    total: int


class StatusView(msgspec.Struct, frozen=True, kw_only=True):
    cluster: str
    mode: str
    version: str
    protocol: int
    """What the server speaks."""
    time: float
    user: str
    role: str
    jobs: dict[JobState, int]
    nodes: dict[NodeState, int]
    store: StoreTrouble | None
    """Why the store refuses writes."""
    isolation: Isolation
    """Whether tasks of different users are isolated from each other on the nodes."""
    disks: tuple[DiskView, ...]
    """Those on which the master keeps the cluster's state and logs."""


class ProblemView(msgspec.Struct, frozen=True):
    path: str
    message: str


class ErrorBody(msgspec.Struct, frozen=True):
    code: str
    message: str
    problems: tuple[ProblemView, ...]
    now: float | UnsetType = UNSET
    """The server's time, if the sender's clock is off."""


class ErrorView(msgspec.Struct, frozen=True):
    error: ErrorBody
