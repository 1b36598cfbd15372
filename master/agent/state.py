"""The master-agent's memory: jobs, their tasks, nodes. Mutable, owned by the reactor, rebuilt from redis at start.

A task that never left PENDING has no object: a component knows the first index that was never started, so an array of
100,000 tasks costs what runs, not what waits.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from sys import intern

from grass.model.job import Component, GpuNeed, Job
from grass.model.lifecycle import JobState, NodeState, TaskState, check_task
from grass.model.reasons import Reason
from grass.model.resources import Resources
from grass.wire.gpu import GpuDevice
from grass.wire.heartbeat import NodeUsage
from grass.wire.job_record import JobRecord, Outcome
from grass.wire.keys import AttemptKey, LaunchKey
from grass.wire.moment import Moment
from grass.wire.schedule_record import ScheduleRecord
from grass.wire.task_record import TaskRecord
from master.agent.aside import Aside
from master.agent.planner_cache import PlannerCache
from master.planning.model import Shape

NOTHING = Resources()
NO_USAGE = NodeUsage()


_NONE: frozenset[int] = frozenset()
_STATES = {state: at for at, state in enumerate(TaskState)}


class Counts:
    """State → number of tasks. A third of a ``Counter``: there are as many as components in the queue."""

    __slots__ = ("_numbers",)

    def __init__(self) -> None:
        self._numbers = [0] * len(_STATES)

    def __getitem__(self, state: TaskState) -> int:
        return self._numbers[_STATES[state]]

    def __setitem__(self, state: TaskState, number: int) -> None:
        self._numbers[_STATES[state]] = number

    def items(self) -> Iterator[tuple[TaskState, int]]:
        return zip(_STATES, self._numbers, strict=True)


@lru_cache(maxsize=4096)
def _shape(
    resources: Resources,
    gpu: GpuNeed,
    ports: int,
    where: tuple[tuple[str, tuple[str, ...]], ...],
    avoid: tuple[str, ...],
    runtime: str | None,
) -> Shape:
    """Shared by equal components: a queue of thousands has few kinds."""
    return Shape(resources, gpu, ports, where, avoid, runtime)


@dataclass(slots=True)
class ComponentRun:
    """``fresh``: tasks from this index on were never assigned. ``again``: indexes below it that may start again now."""

    spec: Component
    tasks: dict[int, TaskRecord] = field(default_factory=dict)
    fresh: int = 0
    again: list[int] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)
    ready: int = 0
    reason: Reason | None = None
    backoff: int = 0
    """Pending tasks that wait for their restart time and are not in ``again`` yet."""
    mean: float | None = None
    """Running mean of the seconds that a task takes, for the backlog."""
    shape: Shape = field(init=False)

    def __post_init__(self) -> None:
        self.counts[TaskState.PENDING] = self.size
        spec = self.spec
        where = tuple(sorted(spec.where.items()))
        self.shape = _shape(spec.resources, spec.gpu, len(spec.ports), where, spec.avoid, spec.runtime)

    @property
    def size(self) -> int:
        """How many tasks it has. The only reader of ``spec.replicas``."""
        return self.spec.replicas

    @property
    def on_node(self) -> int:
        return self.counts[TaskState.ASSIGNED] + self.counts[TaskState.RUNNING]

    @property
    def startable(self) -> int:
        """Pending tasks that wait for nothing but free resources, within the component's own ``parallelism``."""
        waiting = self.size - self.fresh + len(self.again)
        if self.spec.parallelism is None:
            return waiting
        return max(0, min(waiting, self.spec.parallelism - self.on_node))

    def take_next(self) -> int:
        """The index of the next task to start: those that start again first, then in order."""
        if self.again:
            return heapq.heappop(self.again)
        index = self.fresh
        self.fresh += 1
        self.tasks[index] = TaskRecord()
        return index

    def put_back(self, index: int) -> None:
        heapq.heappush(self.again, index)

    def take_back(self, index: int) -> None:
        """A task that waited to be placed again need not wait any more."""
        self.again.remove(index)
        heapq.heapify(self.again)

    def move(self, task: TaskRecord, state: TaskState) -> None:
        check_task(task.state, state)
        self.counts[task.state] -= 1
        self.counts[state] += 1
        task.state = state

    def learn(self, seconds: float) -> None:
        self.mean = seconds if self.mean is None else 0.9 * self.mean + 0.1 * seconds


@dataclass(slots=True)
class JobRun:
    """One run of a job. Its record (``records.job_record``) is made from this whenever it is written."""

    id: str
    name: str
    user: str
    job: Job
    submitted: float
    """Wall seconds; so are ``started`` and ``ended``."""
    components: Mapping[str, ComponentRun]
    """Empty once the job has ended and that was committed."""
    state: JobState = JobState.QUEUED
    reason: Reason | None = None
    started: float | None = None
    ended: float | None = None
    exit_code: int | None = None
    restarts: int = 0
    schedule: str | None = None
    warnings: tuple[str, ...] = ()
    outcome: Outcome | None = None
    """Set while STOPPING: what the job ends with."""
    deadline: Moment | None = None
    stop_grace: float | None = None
    delete: bool = False
    nodes: dict[str, None] = field(default_factory=dict)
    """Nodes that were given a launch template of this job and not yet told to drop it."""
    listed: JobState | None = None
    """The state that the index in the store has it in; None: it is not in it."""
    position: int = 0
    """Its number in the order of submission. It keeps it when it is preempted."""
    met: frozenset[int] = _NONE
    """Indexes in ``job.after`` of the conditions that were met."""

    @classmethod
    def new(cls, job: Job, record: JobRecord) -> JobRun:
        """The memory of a job of which no task was assigned yet."""
        return cls(
            id=record.id,
            name=job.name,
            user=intern(record.user),
            job=job,
            submitted=record.submitted,
            components={name: ComponentRun(spec) for name, spec in job.components.items()},
            state=record.state,
            listed=record.state,
            reason=record.reason,
            started=record.started,
            ended=record.ended,
            exit_code=record.exit_code,
            restarts=record.restarts,
            schedule=record.schedule,
            warnings=record.warnings,
            met=frozenset(record.met) if record.met else _NONE,
        )

    @classmethod
    def past(cls, record: JobRecord) -> JobRun:
        """A job that has ended: what later decisions need of it, which is little."""
        run = cls.new(Job(record.name, {}, ()), record)
        run.warnings, run.reason = (), None
        return run

    def summarise(self) -> None:
        """The end was committed: from here on it is like one that was read by ``past``."""
        assert self.state.ended
        self.job, self.components = Job(self.name, {}, ()), {}
        self.warnings, self.reason, self.outcome = (), None, None

    @property
    def summarised(self) -> bool:
        """Its record must not be written again: it would say less than the one that is stored."""
        return not self.components

    @property
    def on_node(self) -> int:
        return sum(component.on_node for component in self.components.values())

    def attempt(self, component: ComponentRun, index: int, task: TaskRecord) -> str:
        """Key of the task's present attempt, as nodes are told it."""
        return str(AttemptKey(self.id, component.spec.name, index, task.attempt))

    def launch(self, component: ComponentRun) -> LaunchKey:
        return LaunchKey(self.id, component.spec.name)


@dataclass(slots=True)
class Launch:
    """The ``tasks`` of one component on one node, by index, of which at most ``width`` run at once.

    ``width`` is never above ``live``, and ``width * shape`` is what the ledger has reserved for them.
    """

    shape: Resources
    width: int
    tasks: dict[int, TaskRecord] = field(default_factory=dict)
    told: int = -1
    """The width that the node was told last."""
    preempted: int = 0
    """Of ``live``: told to end, to be placed again."""
    until: float = 0.0
    """Steady seconds at which the last of them must have ended, where the component has a time limit."""

    @property
    def live(self) -> int:
        return len(self.tasks)


@dataclass(slots=True)
class DeviceRun:
    """A GPU and what tasks hold of it, in thousandths. ``present``: the node offers it (it may have shrunk)."""

    model: str = ""
    memory: int = 0
    held: int = 0
    busy: str = ""
    """User of a program on it, not Grass's, that was last seen."""
    ill: str = ""
    """Why it is in quarantine: it is lost, or has had errors. Tasks that hold it go on; no other gets it."""
    present: bool = True


@dataclass(slots=True)
class Drain:
    """``deadline``: when its tasks are stopped (None: never). ``remove``: it leaves the cluster when it is empty."""

    user: str
    deadline: Moment | None = None
    remove: bool = False


@dataclass(slots=True)
class NodeRun:
    name: str
    state: NodeState = NodeState.JOINING
    reason: Reason | None = None
    address: str = ""
    total: Resources = NOTHING
    version: str = ""
    api_port: int = 0
    gpus: tuple[GpuDevice, ...] = ()
    """As in its last hello."""
    usage: NodeUsage = NO_USAGE
    seen: float = 0.0
    """Steady seconds of this master-agent at the last message."""
    seen_wall: float | None = None
    """The same for people."""
    boot: str = ""
    launches: dict[LaunchKey, Launch] = field(default_factory=dict)
    held: Resources = NOTHING
    """Reserved by ``launches``, in all."""
    devices: dict[int, DeviceRun] = field(default_factory=dict)
    ports: set[int] = field(default_factory=set)
    """Ports that tasks hold."""
    change: int = 0
    """Number of the last desired-state change sent."""
    labels: dict[str, str] = field(default_factory=dict)
    path: tuple[str, ...] = ()
    runtimes: tuple[str, ...] = ("process",)
    digest: str = ""
    """Of its password, if it came by a ticket: then it has to pass its probe before it is READY."""
    unfit: Reason | None = None
    """What its last hello showed: why it takes no tasks."""
    conditions: tuple[Reason, ...] = ()
    """What its last message showed that passes by itself: why it takes no tasks now."""
    forgiven: dict[int, int] = field(default_factory=dict)
    """Device → how many of its ECC errors an administrator knows of."""
    cordoned: bool = False
    drain: Drain | None = None
    written: float = float("-inf")
    """Steady seconds at which its record was last written for a heartbeat."""
    refused: float = float("-inf")
    """Steady seconds at which an event last told that a report of it was refused."""

    @property
    def free(self) -> Resources:
        """Negative where the node has shrunk below what its tasks hold."""
        return self.total - self.held

    @property
    def live(self) -> int:
        return sum(launch.live for launch in self.launches.values())


@dataclass
class Cluster:
    jobs: dict[str, JobRun] = field(default_factory=dict)
    nodes: dict[str, NodeRun] = field(default_factory=dict)
    live: dict[str, str] = field(default_factory=dict)
    """Job name → id of its run that has not ended."""
    queue: dict[str, None] = field(default_factory=dict)
    """Ids of jobs that have not ended, in order of submission."""
    schedules: dict[str, ScheduleRecord] = field(default_factory=dict)
    seq: int = 0
    positions: int = 0
    """Jobs submitted so far."""
    latest: dict[str, str] = field(default_factory=dict)
    """Job name → id of its newest run that is not removed."""
    followers: dict[str, set[str]] = field(default_factory=dict)
    """Job name or id → ids of queued jobs that wait for it."""
    usage: dict[str, float] = field(default_factory=dict)
    """User → decayed use of the cluster, as of ``usage_at``."""
    usage_at: float = 0.0
    leaving: set[str] = field(default_factory=set)
    """Nodes with a drain."""
    left: set[str] = field(default_factory=set)
    """Names of nodes that were removed: what they still say is not heard."""
    cache: PlannerCache = field(default_factory=PlannerCache)
    unsettled: dict[str, None] = field(default_factory=dict)
    """Jobs that may have come to their outcome without anybody having looked: after a rebuild, those that run."""
    aside: Aside = field(default_factory=Aside)
    """What deciding failed on, and is left out until it is tried again (``aside.py``)."""
