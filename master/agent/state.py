"""The master-agent's memory: jobs, their tasks, nodes. Mutable, owned by the reactor, rebuilt from redis at start.

Used by this package.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from sys import intern
from types import MappingProxyType

from grass.model.job import Component, Job
from grass.model.lifecycle import JobState
from grass.model.reasons import Reason
from grass.wire.job_record import ComponentRecord, JobRecord, Outcome
from grass.wire.keys import AttemptKey, LaunchKey
from grass.wire.moment import Moment
from grass.wire.operation_record import OperationRecord
from grass.wire.schedule_record import ScheduleRecord
from grass.wire.task_record import TaskRecord
from grass.wire.usage import TaskTotals
from master.agent.component_run import ComponentRun
from master.agent.durations import Durations
from master.agent.node_run import NodeRun
from master.agent.planner_cache import PlannerCache
from master.agent.set_aside import SetAsideWork

_NO_OPERATIONS: Mapping[str, OperationRecord] = MappingProxyType({})
MOST_PLAIN = 256
"""Tasks of a component without a framework and bounds, up to which its membership is published."""
_NO_RUNS: dict[str, str] = {}
"""Shared by all jobs that waited for none. Never changed."""


@dataclass(slots=True)
class JobRun:
    """One run of a job. ``records.job_record`` makes its record from this whenever it is written."""

    id: str
    name: str
    user: str
    job: Job
    submitted: float
    """Wall-clock seconds, as are ``started`` and ``ended``."""
    components: Mapping[str, ComponentRun]
    """Empty once the end of the job was committed (``summarise``)."""
    state: JobState = JobState.QUEUED
    reason: Reason | None = None
    started: float | None = None
    ended: float | None = None
    exit_code: int | None = None
    restarts: int = 0
    schedule: str | None = None
    warnings: tuple[str, ...] = ()
    outcome: Outcome | None = None
    """Set while STOPPING: the state, reason and exit code with which the job will end."""
    deadline: Moment | None = None
    stop_grace: float | None = None
    delete: bool = False
    """Whether it is removed as soon as it has ended."""
    nodes: dict[str, None] = field(default_factory=dict)
    """Nodes that have a launch template of this job."""
    listed: JobState | None = None
    """The state under which the store's index of jobs lists it; None: it is not listed."""
    position: int = 0
    """Its number in the order of submission. Preemption does not change it."""
    met: frozenset[int] = frozenset()
    """Indexes in ``job.after`` of the conditions that were met."""
    usage: TaskTotals | None = None
    """What its ended attempts used."""
    published: tuple[ComponentRun, ...] = ()
    """Components whose membership is published."""
    tries: int = 0
    """Restarts of the whole job."""
    not_before: Moment | None = None
    """When the whole job may start again."""
    last_deadline: Moment | None = None
    """End of ``ending.deadline``, which all restarts of the job share."""
    expires: float | None = None
    """Wall-clock seconds at which the ended job is removed; None: by the retention of the cluster."""
    logs_until: float | None = None
    """Wall-clock seconds at which its logs are removed; None: with its record."""
    awaited: dict[str, str] = field(default_factory=lambda: _NO_RUNS)
    """Name of a job in ``job.after`` → id of its run that met the condition."""
    held: str | None = None
    """The user who holds the queued job back."""
    starts: float | None = None
    """Wall-clock seconds before which it does not start."""
    rerun_of: str | None = None
    """Id of the run that this one repeats."""
    operations: Mapping[str, OperationRecord] = field(default_factory=lambda: _NO_OPERATIONS)
    """Id → record, in the order in which they were filed: those that go on, and the newest that have ended."""
    whole: bool = True
    """Whether all tasks of its gang have run at once since they were placed; see ``gangs``."""
    filed: int = 0
    """Operations that were filed on it so far."""
    undone: str = ""
    """Of an ended job of one component: its tasks that have not succeeded (``JobRecord.undone``)."""

    @classmethod
    def new(cls, job: Job, record: JobRecord) -> JobRun:
        """Return the memory of a job without assigned tasks."""
        components = {
            name: _component(spec, record.components.get(name), job.carried.get(name, ()))
            for name, spec in job.components.items()
        }
        if job.follows_tasks:
            for component in components.values():
                component.close()
        return cls(
            id=record.id,
            name=job.name,
            user=intern(record.user),
            job=job,
            submitted=record.submitted,
            components=components,
            state=record.state,
            listed=record.state,
            reason=record.reason,
            started=record.started,
            ended=record.ended,
            exit_code=record.exit_code,
            restarts=record.restarts,
            schedule=record.schedule,
            warnings=record.warnings,
            met=frozenset(record.met),
            filed=record.operations,
            usage=record.usage,
            published=_published(job, components.values()),
            tries=record.tries,
            expires=record.expires,
            logs_until=record.logs_until,
            awaited=record.awaited or _NO_RUNS,
            held=record.held,
            starts=record.starts,
            rerun_of=record.rerun_of,
            delete=record.delete,
            whole=record.whole,
            undone=record.undone,
        )

    @classmethod
    def past(cls, record: JobRecord) -> JobRun:
        """Return the memory of an ended job: the little that later decisions need of it."""
        run = cls.new(Job(record.name, {}, ()), record)
        run.warnings, run.reason, run.usage = (), None, None
        return run

    def grown(self) -> None:
        """Publish memberships also of components that have become large enough for it."""
        self.published = _published(self.job, self.components.values())

    def summarise(self) -> None:
        """Keep only what ``past`` would have kept. Call it after the end of the job was committed."""
        assert self.state.ended
        self.job, self.components, self.published = Job(self.name, {}, ()), {}, ()
        self.warnings, self.reason, self.outcome, self.usage = (), None, None, None
        self.operations = _NO_OPERATIONS

    @property
    def halting(self) -> OperationRecord | None:
        """The operation that is ending all tasks of the job, such as a suspension."""
        if not self.operations:
            return None
        return next((each for each in self.operations.values() if each.halts), None)

    @property
    def divisible(self) -> bool:
        """Return whether a round may assign a part of what the planner placed. Otherwise tasks start together."""
        return not self.job.gang and not any(part.spec.elastic or part.joining for part in self.components.values())

    @property
    def summarised(self) -> bool:
        """Return whether it was summarised. Its record must not be written again, because the stored one says more."""
        return not self.components

    @property
    def on_node(self) -> int:
        return sum(component.on_node for component in self.components.values())

    def attempt(self, component: ComponentRun, index: int, task: TaskRecord) -> str:
        """Return the key of the task's current attempt, as text."""
        return str(AttemptKey(self.id, component.spec.name, index, task.attempt))

    def launch(self, component: ComponentRun) -> LaunchKey:
        return LaunchKey(self.id, component.spec.name)


def _component(spec: Component, record: ComponentRecord | None, carried: tuple[tuple[int, int], ...]) -> ComponentRun:
    """Return a component at its present size, all of whose tasks are pending."""
    if record is None:
        return ComponentRun(spec, spec.replicas, carried)
    component = ComponentRun(spec, record.replicas, carried, generation=record.generation, ran=record.ran)
    if record.holes:
        component.holes = frozenset(record.holes)
    if record.joining:
        component.joining = frozenset(record.joining)
    return component


def _published(job: Job, components: Iterable[ComponentRun]) -> tuple[ComponentRun, ...]:
    """Return the components whose membership is published. Once it was, it is kept up to date."""
    return tuple(part for part in components if part.generation or _publishes(job, part))


def _publishes(job: Job, component: ComponentRun) -> bool:
    """Return whether tasks of the component may want to know each other. An array must not pay for that."""
    spec = component.spec
    if spec.elastic or spec.framework is not None or spec.name in job.gang:
        return True
    return 1 < component.size <= MOST_PLAIN and bool(len(job.components) > 1 or spec.ports)


@dataclass
class Cluster:
    """Everything that the master-agent remembers."""

    jobs: dict[str, JobRun] = field(default_factory=dict)
    nodes: dict[str, NodeRun] = field(default_factory=dict)
    live: dict[str, str] = field(default_factory=dict)
    """Job name → id of its active run."""
    queue: dict[str, None] = field(default_factory=dict)
    """Ids of active jobs, in the order of submission."""
    schedules: dict[str, ScheduleRecord] = field(default_factory=dict)
    seq: int = 0
    """Attempts assigned so far."""
    positions: int = 0
    """Jobs submitted so far."""
    latest: dict[str, str] = field(default_factory=dict)
    """Job name → id of its newest run."""
    followers: dict[str, set[str]] = field(default_factory=dict)
    """Job name or id → ids of the jobs that wait for it."""
    task_followers: dict[str, set[str]] = field(default_factory=dict)
    """Job name or id → ids of the jobs whose tasks wait for its tasks."""
    usage: dict[str, float] = field(default_factory=dict)
    """User → decayed use of the cluster, as of ``usage_at``."""
    usage_at: float = 0.0
    kept_files: dict[str, dict[str, int]] = field(default_factory=dict)
    """User → ``space`` and ``files`` in the share, as the monitor measured them last."""
    models_checked: set[str] = field(default_factory=set)
    """Models of nodes with new checks, whose speeds are to be compared (``node_speeds``)."""
    faded_at: float = float("-inf")
    """Steady time at which speeds of nodes faded last."""
    leaving: set[str] = field(default_factory=set)
    """Nodes with a drain."""
    left: set[str] = field(default_factory=set)
    """Names of removed nodes, whose reports are ignored."""
    cache: PlannerCache = field(default_factory=PlannerCache)
    unsettled: dict[str, None] = field(default_factory=dict)
    """Jobs to settle even if this round changed nothing of them, or has settled them: one that they wait for has ended,
    or a rebuild or a failed round may have left their own end unnoticed."""
    durations: Durations = field(default_factory=Durations)
    set_aside: SetAsideWork = field(default_factory=SetAsideWork)
    """Work on which deciding failed."""
