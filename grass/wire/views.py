"""The replies of the API, as JSON: one type per reply. The OpenAPI document is generated from them.

A view is a record without fields that only the master-agent needs, redacted for its reader. A field that does not
apply is absent.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from grass.model.lifecycle import JobState, NodeState, TaskState
from grass.model.reasons import Reason
from grass.model.schedule import ScheduleKind
from grass.wire.gpu import GpuDevice
from grass.wire.heartbeat import NodeUsage
from grass.wire.job_record import ComponentRecord
from grass.wire.plan_answer import PlannedComponent
from grass.wire.schedule_record import ScheduleState


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
    warnings: tuple[str, ...]


class JobsView(msgspec.Struct, frozen=True):
    jobs: tuple[JobView, ...]
    total: int
    """How many such jobs the caller may see. ``jobs`` is one page of them."""
    more: bool
    """Whether the page is full, so that there may be older jobs. A damaged record is left out of its page."""


class StartedView(msgspec.Struct, frozen=True):
    name: str
    id: str
    warnings: tuple[str, ...]


class TaskView(msgspec.Struct, frozen=True, kw_only=True):
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


class TasksView(msgspec.Struct, frozen=True):
    tasks: tuple[TaskView, ...]


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


class ScheduleView(msgspec.Struct, frozen=True, kw_only=True):
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


class ExecStarted(msgspec.Struct, frozen=True):
    id: str
    """Of the command's session."""
    node: str
    attempt: int


class ExecOutput(msgspec.Struct, frozen=True):
    chunks: tuple[tuple[Literal["stdout", "stderr"], str], ...]
    """Stream and base64."""
    next: int
    """Send it as ``after`` to get what follows."""
    code: int | None
    """Exit code, once the command has ended and all of its output was sent."""
    pause: float
    """Seconds after which to ask again, if too many wait already."""


class ExecAccepted(msgspec.Struct, frozen=True):
    taken: int
    """Bytes that were accepted. Send the rest again."""


class JoinTokenView(msgspec.Struct, frozen=True):
    token: str
    expires: float
    uses: int
    name: str | None


class JoinTerms(msgspec.Struct, frozen=True):
    urls: tuple[str, ...]
    key: str
    bundle: str
    cluster: str


class JoinReach(msgspec.Struct, frozen=True):
    what: str
    host: str
    port: int


class JoinedView(msgspec.Struct, frozen=True, kw_only=True):
    cluster: str
    time: float
    reach: tuple[JoinReach, ...] | UnsetType = UNSET
    bundle: str | UnsetType = UNSET
    kinds: tuple[str, ...] | UnsetType = UNSET
    """The kinds of machines that the bundle is for, such as ``3.11-x86_64-glibc``."""
    config: dict[str, Any] | UnsetType = UNSET
    """The node's cluster.json, without its folders. Passed on unread, hence untyped."""
    secrets: dict[str, Any] | UnsetType = UNSET
    """The node's secrets.json. Passed on unread, hence untyped."""
    share: dict[str, Any] | UnsetType | None = UNSET
    """Where the share is and how to mount it; None: there is none."""


class EventView(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    time: float
    kind: str
    message: str
    user: str = ""
    job: str = ""
    task: str = ""
    node: str = ""
    schedule: str = ""


class EventPiece(msgspec.Struct, frozen=True):
    events: tuple[EventView, ...]
    after: str
    open: bool
    pause: float | UnsetType = UNSET
    """Seconds after which to ask again, if too many follow already."""


class StoreTrouble(msgspec.Struct, frozen=True):
    code: str
    message: str


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
