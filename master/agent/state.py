"""The master-agent's memory: jobs, their tasks, nodes. Mutable, owned by the reactor, rebuilt from redis at start.

A task that was never assigned has no object: a component knows the first index that was never assigned. So an array of
100,000 tasks costs memory only for tasks that run or have run.
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
from master.agent.planner_cache import PlannerCache
from master.agent.set_aside import SetAsideWork
from master.planning.model import Shape

NOTHING = Resources()
NO_USAGE = NodeUsage()


_NONE: frozenset[int] = frozenset()
_STATES = {state: at for at, state in enumerate(TaskState)}


class Counts:
    """State → number of tasks. Uses a third of the memory of a ``Counter``; every component in the queue has one."""

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
    """Shared by equal components, because a queue of thousands has few kinds of them."""
    return Shape(resources, gpu, ports, where, avoid, runtime)


@dataclass(slots=True)
class ComponentRun:
    """``next_index``: tasks from here on were never assigned. ``requeued``: lower indexes that may start again now."""

    spec: Component
    tasks: dict[int, TaskRecord] = field(default_factory=dict)
    next_index: int = 0
    requeued: list[int] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)
    ready: int = 0
    reason: Reason | None = None
    backoff: int = 0
    """Pending tasks that wait for their restart time, and are not in ``requeued`` yet."""
    mean: float | None = None
    """Moving average of a task's seconds, for the backlog."""
    shape: Shape = field(init=False)

    def __post_init__(self) -> None:
        self.counts[TaskState.PENDING] = self.size
        spec = self.spec
        where = tuple(sorted(spec.where.items()))
        self.shape = _shape(spec.resources, spec.gpu, len(spec.ports), where, spec.avoid, spec.runtime)

    @property
    def size(self) -> int:
        """The number of its tasks. The only reader of ``spec.replicas``."""
        return self.spec.replicas

    @property
    def on_node(self) -> int:
        """How many tasks are assigned or running."""
        return self.counts[TaskState.ASSIGNED] + self.counts[TaskState.RUNNING]

    @property
    def startable(self) -> int:
        """How many pending tasks wait only for free resources, within the component's ``parallelism``."""
        waiting = self.size - self.next_index + len(self.requeued)
        if self.spec.parallelism is None:
            return waiting
        return max(0, min(waiting, self.spec.parallelism - self.on_node))

    def take_next(self) -> int:
        """Return the index of the next task to start: requeued tasks first, then in order."""
        if self.requeued:
            return heapq.heappop(self.requeued)
        index = self.next_index
        self.next_index += 1
        self.tasks[index] = TaskRecord()
        return index

    def put_back(self, index: int) -> None:
        """Let a task start again now."""
        heapq.heappush(self.requeued, index)

    def take_back(self, index: int) -> None:
        """Undo ``put_back``: the task need not start again."""
        self.requeued.remove(index)
        heapq.heapify(self.requeued)

    def move(self, task: TaskRecord, state: TaskState) -> None:
        """Change a task's state and the counts. Raises for a transition that is not legal."""
        check_task(task.state, state)
        self.counts[task.state] -= 1
        self.counts[state] += 1
        task.state = state

    def learn(self, seconds: float) -> None:
        """Add a task's duration to the mean."""
        self.mean = seconds if self.mean is None else 0.9 * self.mean + 0.1 * seconds


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
    nodes: dict[str, None] = field(default_factory=dict)
    """Nodes that have a launch template of this job."""
    listed: JobState | None = None
    """The state under which the store's index of jobs lists it; None: it is not listed."""
    position: int = 0
    """Its number in the order of submission. Preemption does not change it."""
    met: frozenset[int] = _NONE
    """Indexes in ``job.after`` of the conditions that were met."""

    @classmethod
    def new(cls, job: Job, record: JobRecord) -> JobRun:
        """Return the memory of a job without assigned tasks."""
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
        """Return the memory of an ended job: the little that later decisions need of it."""
        run = cls.new(Job(record.name, {}, ()), record)
        run.warnings, run.reason = (), None
        return run

    def summarise(self) -> None:
        """Keep only what ``past`` would have kept. Call it after the end of the job was committed."""
        assert self.state.ended
        self.job, self.components = Job(self.name, {}, ()), {}
        self.warnings, self.reason, self.outcome = (), None, None

    @property
    def summarised(self) -> bool:
        """Whether it was summarised. Its record must not be written again, because the stored one says more."""
        return not self.components

    @property
    def on_node(self) -> int:
        return sum(component.on_node for component in self.components.values())

    def attempt(self, component: ComponentRun, index: int, task: TaskRecord) -> str:
        """Return the key of the task's current attempt, as text."""
        return str(AttemptKey(self.id, component.spec.name, index, task.attempt))

    def launch(self, component: ComponentRun) -> LaunchKey:
        return LaunchKey(self.id, component.spec.name)


@dataclass(slots=True)
class Launch:
    """The tasks of one component on one node. At most ``width`` of them run at once; the others wait there.

    ``width`` is never above ``live``. ``width * shape`` is what is allocated to them on the node.
    """

    shape: Resources
    width: int
    tasks: dict[int, TaskRecord] = field(default_factory=dict)
    sent_width: int = -1
    """The width that was last sent to the node."""
    preempted: int = 0
    """How many of them are being preempted."""
    until: float = 0.0
    """Steady time at which the last of them must have ended, if the component has a time limit."""

    @property
    def live(self) -> int:
        """How many tasks run or wait on the node."""
        return len(self.tasks)


@dataclass(slots=True)
class DeviceRun:
    """A GPU. ``allocated``: thousandths. ``present``: whether the node still offers it."""

    model: str = ""
    memory: int = 0
    allocated: int = 0
    busy: str = ""
    """Owner of a program on it that is not a task of Grass, or empty."""
    quarantine: str = ""
    """Why it is in quarantine, or empty. Its tasks go on; no new task gets it."""
    present: bool = True


@dataclass(slots=True)
class Drain:
    """``deadline``: when the node's tasks are stopped (None: never). ``remove``: it leaves the cluster when empty."""

    user: str
    deadline: Moment | None = None
    remove: bool = False


@dataclass(slots=True)
class NodeRun:
    """One node. ``records.node_record`` makes its record from this whenever it is written."""

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
    """Steady time of this master-agent at the node's last message."""
    seen_wall: float | None = None
    """The same in wall-clock seconds, for people."""
    boot: str = ""
    launches: dict[LaunchKey, Launch] = field(default_factory=dict)
    allocated: Resources = NOTHING
    """The sum over ``launches``."""
    devices: dict[int, DeviceRun] = field(default_factory=dict)
    ports: set[int] = field(default_factory=set)
    """Ports of its tasks."""
    change: int = 0
    """Number of the last desired-state change sent."""
    labels: dict[str, str] = field(default_factory=dict)
    path: tuple[str, ...] = ()
    runtimes: tuple[str, ...] = ("process",)
    digest: str = ""
    """Digest of its password, if it joined by a ticket. Such a node must pass its probe before it is READY."""
    unfit: Reason | None = None
    """Why it must get no tasks, from its last hello."""
    conditions: tuple[Reason, ...] = ()
    """Why it must get no tasks now, from its last message. Conditions end by themselves."""
    forgiven: dict[int, int] = field(default_factory=dict)
    """Device → how many of its ECC errors an administrator has accepted."""
    cordoned: bool = False
    drain: Drain | None = None
    written: float = float("-inf")
    """Steady time at which its record was last written for a heartbeat."""
    refused: float = float("-inf")
    """Steady time of the last event about a refused report of this node."""

    @property
    def free(self) -> Resources:
        """What is not allocated. Negative if the node has shrunk below what is allocated."""
        return self.total - self.allocated

    @property
    def live(self) -> int:
        """How many tasks run or wait on the node."""
        return sum(launch.live for launch in self.launches.values())


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
    """Job name or id → ids of the queued jobs that wait for it."""
    usage: dict[str, float] = field(default_factory=dict)
    """User → decayed use of the cluster, as of ``usage_at``."""
    usage_at: float = 0.0
    leaving: set[str] = field(default_factory=set)
    """Nodes with a drain."""
    left: set[str] = field(default_factory=set)
    """Names of removed nodes, whose reports are ignored."""
    cache: PlannerCache = field(default_factory=PlannerCache)
    unsettled: dict[str, None] = field(default_factory=dict)
    """Jobs to settle in the next round: a rebuild or a failed round may have left their end unnoticed."""
    set_aside: SetAsideWork = field(default_factory=SetAsideWork)
    """Work on which deciding failed."""
