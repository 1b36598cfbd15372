"""The replies of the API about jobs, tasks, attempts and operations. The rules of ``views`` apply.

Apart from ``views``, so that a client of jobs loads no more than these. Sent by the API server.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from grass.model.lifecycle import JobState, TaskState
from grass.model.reasons import Reason
from grass.wire.codec import Form
from grass.wire.finding import Finding
from grass.wire.job_record import ComponentRecord, CurrentOperation
from grass.wire.operation_record import OperationKind, OperationState, Outcome
from grass.wire.usage import TaskTotals


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """Times are seconds since the epoch."""

    id: str
    name: str
    user: str
    state: JobState
    reason: Reason | None
    """Why it waits, or how it ended."""
    result: JobState | None = None
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
    starts: float | None = None
    """Before this time it does not start. None: it was not put off."""
    rerun_of: str | None
    """Id of the run that this one repeats."""
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
    software: dict[str, str] | None = None
    """What its newest attempt ran with: ``image`` (digest), versions of GPU ``driver``, ``grass``, ``kernel``."""
    log_gaps: int = 0
    """Places in the output of its last ended attempt where lines are missing: Kubernetes removed them before they were
    read."""
    rank: int | UnsetType = UNSET
    """Its rank among the members of its component, by topology and then by index. Only in the list of a job's tasks."""
    topology: tuple[str, ...] | UnsetType = UNSET
    """Where its node is, from the outside in. Only beside a rank."""
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
    of: int = 0
    """How many tasks the component has."""
    first: str = ""
    """The first of those that failed, whose reason this is. The others may have other numbers in theirs."""
    common: str = ""
    """Values of `matrix` that all of those that failed have, and not all tasks of the component: ``lr=0.3, seed=1``."""


class WhyView(msgspec.Struct, frozen=True):
    """Why a job does not run, or not completely."""

    id: str
    name: str
    state: JobState
    reason: Reason | None
    groups: tuple[WhyGroup, ...]
    findings: tuple[Finding, ...] = ()
    """What rules found: that parts of it stand still, and why."""
    placed: dict[str, str] = {}
    """Component → why its tasks are where they are, if the planner preferred faster nodes."""


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
    delta: int | None = None
    """The requested difference from the number of tasks when it begins."""
    filed: float
    ended: float | None
    outcome: Outcome | None
    message: str
    """What happens now, or how it ended."""
    generation: int | None
    cancellable: bool = False
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


class WaitedView(msgspec.Struct, frozen=True):
    """A job that a client waits for."""

    job: JobView
    pause: float | UnsetType = UNSET
    """Of the last piece, if the job has not ended: the seconds after which to ask again."""


JOB: Form[JobView] = Form(JobView)
JOBS: Form[JobsView] = Form(JobsView)
JOB_FILE: Form[JobFileView] = Form(JobFileView)
STARTED: Form[StartedView] = Form(StartedView)
TASKS: Form[TasksView] = Form(TasksView)
ATTEMPTS: Form[AttemptsView] = Form(AttemptsView)
WHY: Form[WhyView] = Form(WhyView)
OPERATION: Form[OperationView] = Form(OperationView)
OPERATIONS: Form[OperationsView] = Form(OperationsView)
OPERATION_WAITED: Form[OperationWaited] = Form(OperationWaited)
WAITED: Form[WaitedView] = Form(WaitedView)
