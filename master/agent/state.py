"""The master-agent's memory: jobs, their tasks, nodes. Mutable, owned by the reactor, rebuilt from redis at start.

A task that never left PENDING has no object: a component knows the first index that was never started, so an array of
100,000 tasks costs what runs, not what waits.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from grass.model.job import Component, Job
from grass.model.lifecycle import JobState, NodeState, TaskState, check_task
from grass.model.reasons import Reason
from grass.model.resources import Resources
from grass.store.records import TASK_FIELDS
from master.agent.board import Board
from master.planning.model import Shape

NOTHING = Resources()
Moment = tuple[float, str]
"""Steady seconds and the boot they belong to."""


class TaskRun:
    """One task that has been assigned at least once. The fields are those of ``TASK_FIELDS``."""

    __slots__ = TASK_FIELDS

    def __init__(self) -> None:
        self.state = TaskState.PENDING
        self.attempt = 0
        self.node: str | None = None
        self.exit_code: int | None = None
        self.signal: int | None = None
        self.reason: dict[str, Any] | None = None
        self.started: float | None = None
        self.ended: float | None = None
        self.ports: dict[str, int] = {}
        self.restarts = 0
        self.pid: int | None = None
        self.sizes: dict[str, int] | None = None
        self.ready = False
        self.gpus: list[list[int]] = []
        self.not_before: Moment | None = None
        self.seq = 0
        self.vacate: dict[str, Any] | None = None

    def record(self) -> list[Any]:
        return [
            self.state.value,
            self.attempt,
            self.node,
            self.exit_code,
            self.signal,
            self.reason,
            self.started,
            self.ended,
            self.ports,
            self.restarts,
            self.pid,
            self.sizes,
            self.ready,
            self.gpus,
            self.not_before,
            self.seq,
            self.vacate,
        ]

    @classmethod
    def from_record(cls, record: list[Any]) -> TaskRun:
        task = cls()
        for name, value in zip(TASK_FIELDS, record, strict=True):
            setattr(task, name, value)
        task.state = TaskState(task.state)
        return task


@dataclass
class ComponentRun:
    """``fresh``: tasks from this index on were never assigned. ``again``: indexes below it that may start again now."""

    spec: Component
    tasks: dict[int, TaskRun] = field(default_factory=dict)
    fresh: int = 0
    again: list[int] = field(default_factory=list)
    counts: Counter[TaskState] = field(default_factory=Counter)
    ready: int = 0
    reason: Reason | None = None
    backoff: int = 0
    """Pending tasks that wait for their restart time and are not in ``again`` yet."""
    mean: float | None = None
    """Running mean of the seconds that a task takes, for the backlog."""
    shape: Shape = field(init=False)

    def __post_init__(self) -> None:
        self.counts[TaskState.PENDING] = self.spec.replicas
        spec = self.spec
        where = tuple(sorted(spec.where.items()))
        self.shape = Shape(spec.resources, spec.gpu, len(spec.ports), where, spec.avoid, spec.runtime)

    @property
    def on_node(self) -> int:
        counts = self.counts
        return counts[TaskState.ASSIGNED] + counts[TaskState.STARTING] + counts[TaskState.RUNNING]

    @property
    def startable(self) -> int:
        """Pending tasks that wait for nothing but a place, within the component's own ``parallelism``."""
        waiting = self.spec.replicas - self.fresh + len(self.again)
        if self.spec.parallelism is None:
            return waiting
        return max(0, min(waiting, self.spec.parallelism - self.on_node))

    def take_next(self) -> int:
        """The index of the next task to start: those that start again first, then in order."""
        if self.again:
            return heapq.heappop(self.again)
        index = self.fresh
        self.fresh += 1
        self.tasks[index] = TaskRun()
        return index

    def put_back(self, index: int) -> None:
        heapq.heappush(self.again, index)

    def take_back(self, index: int) -> None:
        """A task that waited to be placed again needs no place any more."""
        self.again.remove(index)
        heapq.heapify(self.again)

    def move(self, task: TaskRun, state: TaskState) -> None:
        check_task(task.state, state)
        self.counts[task.state] -= 1
        self.counts[state] += 1
        task.state = state

    def learn(self, seconds: float) -> None:
        self.mean = seconds if self.mean is None else 0.9 * self.mean + 0.1 * seconds


@dataclass
class JobRun:
    """``outcome`` is set while STOPPING: the state, reason and exit code that the job ends with."""

    id: str
    job: Job
    view: dict[str, Any]
    components: dict[str, ComponentRun]
    state: JobState
    reason: Reason | None = None
    outcome: tuple[JobState, Reason | None, int | None] | None = None
    deadline: Moment | None = None
    stop_grace: float | None = None
    delete: bool = False
    nodes: set[str] = field(default_factory=set)
    """Nodes that were given a launch template of this job and not yet told to drop it."""
    place: int = 0
    """Its number in the order of submission. It keeps it when it is preempted."""
    met: set[int] = field(default_factory=set)
    """Positions in ``job.after`` of what has come to pass."""

    @property
    def user(self) -> str:
        return str(self.view["user"])

    @property
    def on_node(self) -> int:
        return sum(component.on_node for component in self.components.values())


@dataclass
class Launch:
    """The ``tasks`` of one component on one node, by index, of which at most ``width`` run at once.

    ``width`` is never above ``live``, and ``width * shape`` is what the ledger has reserved for them.
    """

    shape: Resources
    width: int
    tasks: dict[int, TaskRun] = field(default_factory=dict)
    told: int = -1
    """The width that the node was told last."""
    vacating: int = 0
    """Of ``live``: told to make room."""
    until: float = 0.0
    """Steady seconds at which the last of them must have ended, where the component has a time limit."""

    @property
    def live(self) -> int:
        return len(self.tasks)


@dataclass
class DeviceRun:
    """A GPU and what tasks hold of it, in thousandths. ``present``: the node offers it (it may have shrunk)."""

    model: str = ""
    memory: int = 0
    held: int = 0
    busy: str = ""
    """Whose program, not Grass's, was last seen on it."""
    ill: str = ""
    """Why it is in quarantine: it is lost, or has had errors. Tasks that hold it go on; no other gets it."""
    present: bool = True


@dataclass
class Drain:
    """``deadline``: when its tasks are stopped (None: never). ``remove``: it leaves the cluster when it is empty."""

    user: str
    deadline: Moment | None = None
    remove: bool = False


@dataclass
class NodeRun:
    name: str
    state: NodeState = NodeState.JOINING
    reason: Reason | None = None
    address: str = ""
    total: Resources = NOTHING
    info: dict[str, Any] = field(default_factory=dict)
    usage: dict[str, Any] = field(default_factory=dict)
    seen: float = 0.0
    """Steady seconds of this master-agent at the last message."""
    boot: str = ""
    launches: dict[str, Launch] = field(default_factory=dict)
    held: Resources = NOTHING
    """Reserved by ``launches``, in all."""
    devices: dict[int, DeviceRun] = field(default_factory=dict)
    ports: set[int] = field(default_factory=set)
    """Ports that tasks hold."""
    order: int = 0
    """Number of the last order sent."""
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
    schedules: dict[str, dict[str, Any]] = field(default_factory=dict)
    seq: int = 0
    places: int = 0
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
    board: Board = field(default_factory=Board)


def attempt_key(job_id: str, component: str, index: int, attempt: int) -> str:
    return f"{job_id}/{component}.{index}/{attempt}"


def parse_attempt_key(key: str) -> tuple[str, str, int, int]:
    job_id, task, attempt = key.rsplit("/", 2)
    component, _, index = task.rpartition(".")
    return job_id, component, int(index), int(attempt)


def launch_key(job_id: str, component: str) -> str:
    return f"{job_id}/{component}"
