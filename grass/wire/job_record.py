"""The record of one run of a job. Written by the API first, with the ticket; later by the master-agent only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from grass.model.lifecycle import JobState, TaskState
from grass.model.reasons import Reason
from grass.wire.codec import Form
from grass.wire.moment import Moment
from grass.wire.operation_record import OperationKind, OperationState
from grass.wire.usage import TaskTotals

if TYPE_CHECKING:
    from grass.model.job import Job  # slow to import, and no record has one


class ComponentRecord(msgspec.Struct, frozen=True):
    """The state of one component, summed over its tasks."""

    replicas: int
    """Its present size: the number of its tasks."""
    counts: dict[TaskState, int]
    """State → number of tasks. States without tasks are left out."""
    reason: Reason | None = None
    """Why its pending tasks wait."""
    generation: int = 0
    """Generation of its membership; 0: it has none."""
    holes: tuple[int, ...] = ()
    """Indexes below the highest one that no task has, because tasks were removed."""
    joining: tuple[int, ...] = ()
    """Indexes of new tasks that an operation has not committed as members yet."""
    allocated: int | None = None
    """For how many tasks resources are allocated. The other tasks on nodes wait behind equal ones, for their resources.
    None: written by an older Grass."""
    ran: bool = False
    """Whether a task of it has run since its job was started, or started again."""
    typical: float | None = None
    """Seconds of its tasks that succeeded last, in the median; None: none has."""
    placed: str = ""
    """What the planner says of where its tasks are: on nodes that were measured to be faster than others."""

    @property
    def on_nodes(self) -> bool:
        """Return whether some of its tasks are on nodes."""
        return any(count for state, count in self.counts.items() if state.on_node)

    @property
    def end(self) -> int:
        """The first index above those of its tasks."""
        return self.replicas + len(self.holes)

    @property
    def indexes(self) -> Sequence[int]:
        """The indexes of its tasks."""
        if not self.holes:
            return range(self.replicas)
        gone = set(self.holes)
        return [index for index in range(self.end) if index not in gone]


class CurrentOperation(msgspec.Struct, frozen=True):
    """What a job is being changed to now."""

    id: str
    kind: OperationKind
    component: str | None
    state: OperationState
    message: str


class Outcome(NamedTuple):
    """The state in which a STOPPING job ends once no attempt is left. As JSON: a list."""

    state: JobState
    reason: Reason | None
    exit_code: int | None


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The record of one run of a job. By job id in the hash ``jobs``."""

    id: str
    name: str
    user: str
    state: JobState
    reason: Reason | None = None
    """Why it waits, or how it ended."""
    submitted: float
    """Seconds since the epoch, as ``started`` and ``ended``."""
    started: float | None = None
    ended: float | None = None
    exit_code: int | None = None
    counts: dict[TaskState, int] = {}
    """State → number of tasks, of all components."""
    components: dict[str, ComponentRecord] = {}
    restarts: int = 0
    """Restarts of all its tasks."""
    schedule: str | None = None
    """Name of the schedule that started it."""
    warnings: tuple[str, ...] = ()
    """Warnings of the API at submission, and of the master-agent: tasks that use far more memory than they ask for."""
    whole: bool = True
    """Whether all tasks of its gang have run at once since they were placed."""
    tags: dict[str, str] = {}
    """Notes of the user, to find the job by."""
    outcome: Outcome | None = None
    deadline: Moment | None = None
    """End of its time limit."""
    usage: TaskTotals | None = None
    """What its attempts that have ended used. None: nothing was measured."""
    met: tuple[int, ...] = ()
    """Indexes in ``Job.after`` of the conditions that were met."""
    operations: int = 0
    """Operations that were filed on it so far."""
    operation: CurrentOperation | None = None
    """The first operation that has not ended, without repairs."""
    dialect: str = "native"
    """Kind of its file: ``native``, ``maro``, or one of another system, such as ``TrainingJob``."""
    tries: int = 0
    """Restarts of the whole job."""
    not_before: Moment | None = None
    """When the whole job may start again."""
    last_deadline: Moment | None = None
    """End of the deadline that all restarts of the job share."""
    expires: float | None = None
    """When the job is removed, in seconds since the epoch, once its result is known; None: by the retention of the
    cluster."""
    logs_until: float | None = None
    """When its logs are removed, in seconds since the epoch; None: with its record."""
    awaited: dict[str, str] = {}
    """Name of a job in ``Job.after`` → id of its run that met the condition."""
    priority: int = 0
    held: str | None = None
    """The user who holds the queued job back."""
    starts: float | None = None
    """Before this time it does not start, in seconds since the epoch by the clock of the master."""
    rerun_of: str | None = None
    """Id of the run that this one repeats."""
    delete: bool = False
    """Whether it is removed as soon as it has ended."""
    undone: str = ""
    """Of an ended job of one component, the indexes of tasks that have not succeeded, as bits of a hexadecimal number;
    empty: there is none, or it is not known."""


JOB_RECORD: Form[JobRecord] = Form(JobRecord)


def first_record(
    job: Job,
    *,
    job_id: str,
    user: str,
    now: float,
    warnings: tuple[str, ...] = (),
    schedule: str | None = None,
    reason: Reason | None = None,
    rerun_of: str | None = None,
    held: str | None = None,
    starts: float | None = None,
) -> JobRecord:
    """Return the record of a job that was just accepted: its tasks are PENDING, except those that an earlier run has
    done."""
    components = {
        name: ComponentRecord(part.replicas, _first_counts(job, name)) for name, part in job.components.items()
    }
    counts = Counter[TaskState]()
    for part in components.values():
        counts.update(part.counts)
    return JobRecord(
        id=job_id,
        name=job.name,
        user=user,
        state=JobState.QUEUED,
        reason=reason,
        submitted=now,
        counts=dict(counts),
        components=components,
        schedule=schedule,
        warnings=warnings,
        dialect=job.dialect,
        priority=job.priority,
        rerun_of=rerun_of,
        held=held,
        starts=starts,
        tags=dict(job.tags),
    )


def _first_counts(job: Job, component: str) -> dict[TaskState, int]:
    carried = sum(last - first + 1 for first, last in job.carried.get(component, ()))
    counts = {TaskState.PENDING: job.components[component].replicas - carried, TaskState.SUCCEEDED: carried}
    return {state: count for state, count in counts.items() if count}
