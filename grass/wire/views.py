"""The replies of the API, as JSON: one type per reply. The OpenAPI document is generated from them.

Here: jobs, tasks, operations, plans, logs, schedules, images. Other replies are in the modules ``*_views``. Sent by the
API server.

A view is a record without fields that only the master-agent needs, redacted for its reader. A field that does not
apply is absent.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from grass.model.job import Job
from grass.model.lifecycle import JobState, TaskState
from grass.model.reasons import Reason
from grass.model.schedule import ScheduleKind
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
    """Version of Grass on the server."""


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """Times are seconds since the epoch."""

    id: str
    name: str
    user: str
    state: JobState
    reason: Reason | None
    """Why it waits, or how it ended."""
    result: JobState | None
    """The state in which it ended, or will end once no task runs, unless it starts again. None: not known yet."""
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
    """Kind of its file: ``native``, ``maro``, or one of another system, such as ``TrainingJob``."""
    tries: int
    """Restarts of the whole job."""
    expires: float | None
    """When the job is removed. It is known with its result; null: by the retention of the cluster."""
    held: str | None
    """The user who holds the queued job back."""
    rerun_of: str | None
    """Id of the run that this one repeats."""
    specification: Job | UnsetType = UNSET
    """Only of one job, where it was asked for: what its file said. Secrets in environments are redacted."""
    newer_deleted: str | UnsetType = UNSET
    """Only of one job that was asked for by name: the id of a newer run, which was deleted."""


class JobsView(msgspec.Struct, frozen=True):
    """A page of jobs."""

    jobs: tuple[JobView, ...]
    total: int | None
    """How many such jobs the caller may see; None: not known, because names, tags or times select them. ``jobs`` is one
    page of them."""
    more: bool
    """Whether the page is full, so that there may be older jobs. A damaged record is left out of its page."""


class JobFileView(msgspec.Struct, frozen=True):
    """The file of a job. Secrets in it are redacted."""

    name: str
    """Name of the file, without its folder."""
    text: str
    original: bool
    """Whether the user wrote it so. False: it was written from the specification, because the job was not started from
    a file, or the file was too long to be kept."""


class StartedView(msgspec.Struct, frozen=True):
    """The answer to a submission."""

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
    """What its attempts used together. None: nothing was measured. In the list of a job's tasks, this includes what the
    running attempt used so far, 2 s late; in other answers, only attempts that have ended count."""
    software: dict[str, str] | None
    """What its newest attempt ran with: ``image`` (digest), versions of GPU ``driver``, ``grass``, ``kernel``."""
    values: dict[str, str] | UnsetType = UNSET
    """Its values of `matrix`, or its entry of `from` as `entry`. Only in the list of a job's tasks."""


class TasksView(msgspec.Struct, frozen=True):
    """Tasks of a job."""

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
    """A page of attempts, by task and then by number."""

    attempts: tuple[AttemptView, ...]
    after: str | None = None
    """Pass this on to get the next page; None: there is no more."""


class WhyGroup(msgspec.Struct, frozen=True):
    """Tasks that wait, or failed, for the same reason."""

    component: str
    state: TaskState
    count: int
    reason: Reason | None
    next: str | None
    """What would start them."""


class WhyView(msgspec.Struct, frozen=True):
    """Why a job does not run, or not completely."""

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
    """None: it has not begun."""
    to_size: int | None
    delta: int | None
    """The requested difference from the number of tasks when it begins."""
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
    """Operations on a job."""

    operations: tuple[OperationView, ...]


class OperationWaited(msgspec.Struct, frozen=True):
    """An operation that a client waits for."""

    operation: OperationView
    pause: float
    """Seconds after which to ask again, if too many wait already."""


class PlanEviction(msgspec.Struct, frozen=True):
    """A job whose tasks would be stopped for the planned one."""

    job: str | None
    """None: a job that the caller may not see."""
    count: int
    """Tasks that would be stopped."""


class PlanView(msgspec.Struct, frozen=True):
    """Where a job would run if it were submitted now."""

    name: str
    reason: Reason | None
    components: dict[str, PlannedComponent]
    evictions: tuple[PlanEviction, ...]
    warnings: tuple[str, ...]


class KeepAlive(msgspec.Struct, frozen=True):
    """An empty object of a stream, ``{}``: the server is working; or, as the last one, the stream ends."""


class WaitedView(msgspec.Struct, frozen=True):
    """A job that a client waits for."""

    job: JobView
    pause: float | UnsetType = UNSET
    """Of the last piece, if the job has not ended: the seconds after which to ask again."""


LogLines = tuple[str, int, str, float, str, bool, int]
"""Task, attempt, stream, time, text of lines, whether a newline ends the last one, bytes lost before the first."""


class LogPiece(msgspec.Struct, frozen=True):
    """Lines of a log stream, and where to continue after it breaks."""

    job_id: str
    lines: tuple[LogLines, ...]
    """Each: task, attempt, stream, time, text of one or more lines, whether a newline ends it, bytes lost before it."""
    cursor: dict[str, dict[str, int]]
    """Offsets by task and ``<attempt>/<stream>``. Merge them into those of earlier pieces."""
    live: bool
    """Everything that existed when the stream began has been sent."""
    open: bool
    """Of the last piece, whether there may be more, so that the client asks again."""
    before: float | UnsetType = UNSET
    """Send it back with the cursor."""
    pause: float | UnsetType = UNSET
    """Seconds after which to ask again, if too many follow already."""
    late: bool | UnsetType = UNSET
    """Only in the last piece, and only true: some output has not reached the log collector, and may come later."""


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
    """Runs of the jobs in ``jobs`` that are kept; in a list, only of the newest."""
    warnings: tuple[str, ...] | UnsetType = UNSET


class SchedulesView(msgspec.Struct, frozen=True):
    """All schedules that the caller may see."""

    schedules: tuple[ScheduleView, ...]
