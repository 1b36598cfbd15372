"""The master-agent's memory: jobs, their tasks, nodes. Mutable, owned by the reactor, rebuilt from redis at start.

A task that was never assigned has no object: a component knows the first index that was never assigned. So an array of
100,000 tasks costs memory only for tasks that run or have run.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from sys import intern
from types import MappingProxyType

from grass.model.job import Component, GpuNeed, Job
from grass.model.lifecycle import JobState, NodeState, TaskState, check_task
from grass.model.reasons import Reason
from grass.model.resources import Resources
from grass.wire.gpu import GpuDevice
from grass.wire.heartbeat import NodeUsage
from grass.wire.job_record import ComponentRecord, JobRecord, Outcome
from grass.wire.keys import AttemptKey, LaunchKey
from grass.wire.membership import Member
from grass.wire.moment import Moment
from grass.wire.operation_record import OperationRecord
from grass.wire.schedule_record import ScheduleRecord
from grass.wire.task_record import TaskRecord
from grass.wire.usage import TaskTotals
from master.agent.planner_cache import PlannerCache
from master.agent.set_aside import SetAsideWork
from master.planning.model import Shape

NOTHING = Resources()
NO_USAGE = NodeUsage()


_NONE: frozenset[int] = frozenset()
_NO_OPERATIONS: Mapping[str, OperationRecord] = MappingProxyType({})
MOST_PLAIN = 256
"""Tasks of a component without a framework and bounds, up to which its membership is published."""
_NO_RUNS: dict[str, str] = {}
"""Shared by all jobs that waited for none. Never changed."""
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
    """``size``: the number of its tasks, without those that were removed and still run (``leaving``). ``next_index``:
    tasks from here on were never assigned. ``requeued``: lower indexes that may start again now.

    ``holes``: indexes below ``end`` that no task has, because tasks were removed. All are below ``next_index``.
    ``carried``: ranges of indexes that an earlier run has done (``Job.carried``).
    """

    spec: Component
    size: int
    carried: tuple[tuple[int, int], ...] = ()
    tasks: dict[int, TaskRecord] = field(default_factory=dict)
    next_index: int = 0
    skipped: int = 0
    """How many tasks from ``next_index`` on have ended without being assigned: they were carried over, or stopped."""
    requeued: list[int] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)
    ready: int = 0
    reason: Reason | None = None
    backoff: int = 0
    """Pending tasks that wait for their restart time, and are not in ``requeued`` yet."""
    mean: float | None = None
    """Moving average of a task's seconds, for the backlog."""
    holes: frozenset[int] = _NONE
    joining: frozenset[int] = _NONE
    """New tasks that are no members yet: their operation has not committed them. They count in ``size``."""
    entering: tuple[int, ...] = ()
    """Those of ``joining`` that were never placed. They are placed once no other task of the component waits."""
    released: dict[int, TaskRecord] | None = None
    """Index → last record of a removed task, whose attempts must not be numbered again."""
    leaving: int = 0
    """Removed tasks that are still on a node. They are in ``tasks``, but not in ``counts``."""
    generation: int = 0
    members: tuple[Member, ...] = ()
    """As last published."""
    avoid: str | None = None
    """A node on which tasks must not start now, because one of them is being replaced there."""
    whole: bool = True
    """Whether the tasks of ``entering`` start together or not at all."""
    below: float | None = None
    """Steady time at which the job is queued again, because fewer tasks than ``min`` run."""
    informed: frozenset[str] = frozenset()
    """Nodes that were sent the present membership."""
    shape: Shape = field(init=False)

    def __post_init__(self) -> None:
        done = TaskRecord(TaskState.SUCCEEDED)  # one object for all of them, because nothing changes it
        for first, last in self.carried:
            self.tasks.update(dict.fromkeys(range(first, last + 1), done))
        self.skipped = len(self.tasks)
        self.counts[TaskState.PENDING] = self.size - self.skipped
        self.counts[TaskState.SUCCEEDED] = self.skipped
        spec = self.spec
        where = tuple(sorted(spec.where.items()))
        self.shape = _shape(spec.resources, spec.gpu, len(spec.ports), where, spec.avoid, spec.runtime)

    @property
    def end(self) -> int:
        """The first index above those of its tasks."""
        return self.size + len(self.holes)

    @property
    def on_node(self) -> int:
        """How many tasks are assigned or running, removed ones included."""
        return self.counts[TaskState.ASSIGNED] + self.counts[TaskState.RUNNING] + self.leaving

    @property
    def demanded(self) -> Shape:
        """What its tasks need now."""
        if self.avoid is None:
            return self.shape
        return replace(self.shape, avoid=(*self.shape.avoid, self.avoid))

    @property
    def joins(self) -> bool:
        """Whether only new members wait for resources: all other tasks of the component are placed first."""
        return bool(self.entering) and self.next_index + self.skipped >= self.end and not self.requeued

    @property
    def missing(self) -> int:
        """How many tasks are missing until ``min`` of them run or have succeeded."""
        counts = self.counts
        there = counts[TaskState.ASSIGNED] + counts[TaskState.RUNNING] + counts[TaskState.SUCCEEDED]
        return max(0, (self.spec.min or 0) - there)

    @property
    def too_few(self) -> bool:
        """Whether fewer than ``min`` tasks run, besides those that are about to be restarted, and others could."""
        waiting = self.counts[TaskState.PENDING] + self.counts[TaskState.LOST]
        return self.missing > self.backoff and waiting > self.backoff

    @property
    def startable(self) -> int:
        """How many pending tasks wait only for free resources, within the component's ``parallelism``."""
        waiting = self.end - self.next_index - self.skipped + len(self.requeued) or len(self.entering)
        if self.spec.parallelism is None:
            return waiting
        return max(0, min(waiting, self.spec.parallelism - self.on_node))

    def take_next(self) -> int:
        """Return the index of the next task to start: requeued tasks first, then in order, then new members."""
        if self.requeued:
            return heapq.heappop(self.requeued)
        while self.skipped and self.next_index in self.tasks:
            self.next_index += 1
            self.skipped -= 1
        if self.next_index >= self.end:
            index, *others = self.entering
            self.entering = tuple(others)
            return index
        index = self.next_index
        self.next_index += 1
        self.tasks[index] = self.blank(index)
        return index

    def blank(self, index: int) -> TaskRecord:
        """Return the record of a task that starts for the first time, or for the first time since it was removed."""
        before = self.released.get(index) if self.released else None
        return TaskRecord() if before is None else TaskRecord(attempt=before.attempt, usage=before.usage)

    def skip(self, index: int, task: TaskRecord) -> None:
        """End a task that was never assigned."""
        self.tasks[index] = task
        self.counts[TaskState.PENDING] -= 1
        self.counts[task.state] += 1
        self.skipped += 1

    def start_none(self) -> None:
        """Start no more tasks."""
        self.next_index, self.skipped = self.end, 0
        self.requeued.clear()
        self.entering = ()

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
        if task.released:
            self.leaving += state.on_node - task.state.on_node
        else:
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
    """Whether it is removed as soon as it has ended."""
    nodes: dict[str, None] = field(default_factory=dict)
    """Nodes that have a launch template of this job."""
    listed: JobState | None = None
    """The state under which the store's index of jobs lists it; None: it is not listed."""
    position: int = 0
    """Its number in the order of submission. Preemption does not change it."""
    met: frozenset[int] = _NONE
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
    rerun_of: str | None = None
    """Id of the run that this one repeats."""
    operations: Mapping[str, OperationRecord] = field(default_factory=lambda: _NO_OPERATIONS)
    """Id → record, in the order in which they were filed: those that go on, and the newest that have ended."""
    filed: int = 0
    """Operations that were filed on it so far."""

    @classmethod
    def new(cls, job: Job, record: JobRecord) -> JobRun:
        """Return the memory of a job without assigned tasks."""
        components = {
            name: _component(spec, record.components.get(name), job.carried.get(name, ()))
            for name, spec in job.components.items()
        }
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
            met=frozenset(record.met) if record.met else _NONE,
            filed=record.operations,
            usage=record.usage,
            published=_published(job, components.values()),
            tries=record.tries,
            expires=record.expires,
            logs_until=record.logs_until,
            awaited=record.awaited or _NO_RUNS,
            held=record.held,
            rerun_of=record.rerun_of,
            delete=record.delete,
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
        """Whether a round may assign a part of what the planner placed. Otherwise tasks start together."""
        return not self.job.gang and not any(part.spec.elastic or part.joining for part in self.components.values())

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


def _component(spec: Component, record: ComponentRecord | None, carried: tuple[tuple[int, int], ...]) -> ComponentRun:
    """Return a component at its present size, all of whose tasks are pending."""
    if record is None:
        return ComponentRun(spec, spec.replicas, carried)
    component = ComponentRun(spec, record.replicas, carried, generation=record.generation)
    if record.holes:
        component.holes = frozenset(record.holes)
    if record.joining:
        component.joining = frozenset(record.joining)
    return component


def _published(job: Job, components: Iterable[ComponentRun]) -> tuple[ComponentRun, ...]:
    """Return the components whose membership is published. Once it was, it is kept up to date."""
    return tuple(part for part in components if part.generation or _publishes(job, part))


def _publishes(job: Job, component: ComponentRun) -> bool:
    """Whether tasks of the component may want to know each other. An array must not pay for that."""
    spec = component.spec
    if spec.elastic or spec.framework is not None or spec.name in job.gang:
        return True
    return 1 < component.size <= MOST_PLAIN and bool(len(job.components) > 1 or spec.ports)


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
