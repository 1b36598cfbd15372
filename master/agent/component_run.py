"""A component of a job as the master-agent remembers it. Part of ``state``.

A task that was never assigned has no object: a component knows the first index that was never assigned. So an array of
100,000 tasks costs memory only for tasks that run or have run.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from statistics import median
from types import MappingProxyType
from typing import NamedTuple

from grass.frameworks.programs import needed_of_node
from grass.model.job import Component, GpuNeed
from grass.model.lifecycle import TaskState, check_task
from grass.model.namespace import refused
from grass.model.reasons import Reason
from grass.model.resources import Resources
from grass.model.runtime import RuntimeName
from grass.wire.membership import Member
from grass.wire.task_record import TaskRecord
from master.planning.model import Shape

_NONE: frozenset[int] = frozenset()
MOST_SAMPLES = 15
_STATES = {state: at for at, state in enumerate(TaskState)}


class Setback(NamedTuple):
    """Tasks that a node could not start, one after the other. ``until``: steady time before which no more go there."""

    failures: int
    until: float | None = None


_NONE_EXCUSED: Mapping[int, tuple[str, ...]] = MappingProxyType({})
_NO_SETBACKS: Mapping[str, Setback] = MappingProxyType({})
_NOT_CHECKING: Mapping[str, float | None] = MappingProxyType({})


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
    runtime: RuntimeName | None,
    programs: tuple[str, ...],
    framework: str,
    has_image: bool,
    not_in_pods: str,
    share_helps: bool,
    checks: str,
) -> Shape:
    """Shared by equal components, because a queue of thousands has few kinds of them."""
    pods = has_image, not_in_pods, share_helps
    return Shape(resources, gpu, ports, where, avoid, runtime, programs, framework, *pods, checks=checks)


@dataclass(slots=True)
class ComponentRun:
    """One component of a job: its tasks, and how many of them are in which state.

    ``size``: the number of its tasks, without those that were removed and still run (``leaving``). ``next_index``:
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
    samples: deque[float] | tuple[()] = ()
    """Seconds of the tasks that succeeded last, for estimates (``durations``)."""
    holes: frozenset[int] = _NONE
    joining: frozenset[int] = _NONE
    """New tasks that are not members yet: their operation has not committed them. They count in ``size``."""
    entering: deque[int] = field(default_factory=deque)
    """Those of ``joining`` that were never placed. They are placed once no other task of the component waits."""
    released: dict[int, TaskRecord] | None = None
    """Index → last record of a removed task, whose attempts must not be numbered again."""
    slots: int = 0
    """For how many tasks resources are allocated, over all nodes: the sum of ``Launch.width``."""
    leaving: int = 0
    """Removed tasks that are still on a node. They are in ``tasks``, but not in ``counts``."""
    generation: int = 0
    ran: bool = False
    """Whether a task of it has run since its job was started, or started again."""
    members: tuple[Member, ...] = ()
    """The members as last published."""
    avoid: str | None = None
    """A node on which tasks must not start now, because one of them is being replaced there."""
    setbacks: Mapping[str, Setback] = field(default_factory=lambda: _NO_SETBACKS)
    """By node; see ``setbacks``."""
    checking: Mapping[str, float | None] = field(default_factory=lambda: _NOT_CHECKING)
    """Node that has not passed the check before tasks start there → steady time at which to look again; None: it is
    being checked."""
    errors: dict[object, dict[str, float]] | None = None
    """Kind of error → node → steady time of the last one; see ``repeated_errors``."""
    closed: set[int] | None = None
    """Indexes of tasks that wait for the task of the same index in another job. None: tasks do not wait so."""
    excused: Mapping[int, tuple[str, ...]] = field(default_factory=lambda: _NONE_EXCUSED)
    """Task → nodes whose fault its failures were, so that no restart was counted."""
    whole: bool = True
    """Whether the tasks of ``entering`` start together or not at all."""
    below: float | None = None
    """Steady time at which the job is queued again, because fewer tasks than ``min`` run."""
    informed: frozenset[str] = frozenset()
    """Nodes that were sent the present membership."""
    placed: str = ""
    """As in its record."""
    shape: Shape = field(init=False)

    def __post_init__(self) -> None:
        done = TaskRecord(TaskState.SUCCEEDED)  # one object for all of them, because nothing changes it
        for first, last in self.carried:
            self.tasks.update(dict.fromkeys(range(first, last + 1), done))
        self.skipped = len(self.tasks)
        self.counts[TaskState.PENDING] = self.size - self.skipped
        self.counts[TaskState.SUCCEEDED] = self.skipped
        self.form()

    def form(self) -> None:
        """Note what its tasks need by the specification."""
        spec = self.spec
        where = tuple(sorted(spec.where.items()))
        programs = needed_of_node(spec)
        framework = spec.framework.name.value if spec.framework and programs else ""
        ports = len(spec.ports)
        has_image = spec.image is not None or spec.runtime is RuntimeName.PROCESS
        not_in_pods = refused(spec, share=False) if spec.runtime in (None, RuntimeName.KUBERNETES) else ""
        share_helps = bool(not_in_pods) and not refused(spec, share=True)
        self.shape = _shape(
            *(spec.resources, spec.gpu, ports, where, spec.avoid, spec.runtime, programs, framework),
            *(has_image, not_in_pods, share_helps, spec.checks),
        )

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
        """Return what its tasks need now."""
        if self.avoid is None and not self.setbacks and not self.checking:
            return self.shape
        avoid = self.shape.avoid if self.avoid is None else (*self.shape.avoid, self.avoid)
        return replace(self.shape, avoid=avoid, away_from=self.away_from, unchecked=tuple(sorted(self.checking)))

    @property
    def away_from(self) -> tuple[str, ...]:
        """Return the nodes on which tasks must not start now, because one of them could not."""
        return tuple(sorted(name for name, each in self.setbacks.items() if each.until is not None))

    @property
    def joins(self) -> bool:
        """Return whether only new members wait for resources: all other tasks of the component are placed first."""
        return bool(self.entering) and self.next_index + self.skipped >= self.end and not self.requeued

    @property
    def missing(self) -> int:
        """How many tasks are missing until ``min`` of them run or have succeeded."""
        counts = self.counts
        there = counts[TaskState.ASSIGNED] + counts[TaskState.RUNNING] + counts[TaskState.SUCCEEDED]
        return max(0, (self.spec.min or 0) - there)

    @property
    def too_few(self) -> bool:
        """Return whether fewer than ``min`` tasks run, besides those about to be restarted, and others could run."""
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
            return self.entering.popleft()
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
        if self.closed is None:
            self.skipped += 1
        else:
            self.closed.discard(index)

    def close(self) -> None:
        """Let each task that was never assigned wait until it is opened."""
        self.closed = set(range(self.end)).difference(self.tasks, self.holes)
        self.next_index, self.skipped = self.end, 0

    def open(self, index: int) -> None:
        """Let a task start that was closed."""
        assert self.closed is not None
        self.closed.remove(index)
        self.tasks[index] = self.blank(index)
        self.put_back(index)

    def start_none(self) -> None:
        """Start no more tasks."""
        if self.closed:
            self.closed.clear()
        self.next_index, self.skipped = self.end, 0
        self.requeued.clear()
        self.entering.clear()

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
        self.ran = self.ran or state in (TaskState.RUNNING, TaskState.SUCCEEDED)

    @property
    def typical(self) -> float | None:
        """Return the median of the seconds of tasks that succeeded."""
        return median(self.samples) if self.samples else None

    def sample(self, seconds: float) -> None:
        """Note what a task took that succeeded."""
        if not isinstance(self.samples, deque):
            self.samples = deque(maxlen=MOST_SAMPLES)
        self.samples.append(seconds)

    def learn(self, seconds: float) -> None:
        """Add a task's duration to the mean."""
        self.mean = seconds if self.mean is None else 0.9 * self.mean + 0.1 * seconds
