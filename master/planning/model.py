"""What the planner takes and returns: frozen values, no I/O, no clock. Made by ``master.agent``.

Amounts are those of ``grass.model.resources``; durations are seconds from the moment of the view.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from grass.model.job import GpuNeed, Policy
from grass.model.reasons import Reason
from grass.model.resources import DEVICE, Resources

ANY_DEVICE = GpuNeed()
DeviceShares = tuple[tuple[int, int], ...]
"""The GPUs of one task: (device id, thousandths) of each."""


@dataclass(frozen=True)
class Device:
    """One GPU. ``free``: thousandths that are not allocated; ``busy``: the owner of another program on it;
    ``quarantine``: why it is in quarantine, or empty."""

    id: int
    model: str = ""
    memory: int = 0
    free: int = DEVICE
    busy: str = ""
    quarantine: str = ""

    @property
    def usable(self) -> bool:
        return not (self.busy or self.quarantine)

    @property
    def offered(self) -> int:
        """Free thousandths that a task may get."""
        return self.free if self.usable else 0


_ROW = struct.Struct("11q")


@dataclass(frozen=True)
class Node:
    """``free``: what is not allocated (negative when the node has shrunk below what is allocated).

    ``path``: in the topology (``("rack1", "switch3")``). ``closed``: why it accepts no tasks ("draining", "silent");
    empty: it is open. A closed node still counts as a size. ``ports``: free named ports.
    """

    name: str
    total: Resources
    free: Resources
    devices: tuple[Device, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    path: tuple[str, ...] = ()
    runtimes: frozenset[str] = frozenset({"process"})
    closed: str = ""
    ports: int = 10_000

    @cached_property
    def packed(self) -> bytes:
        """Free and total amounts as machine integers, made once per Node."""
        free, total = self.free, self.total
        return _ROW.pack(
            free.cpu,
            free.memory,
            free.gpu,
            free.disk,
            self.ports,
            total.cpu,
            total.memory,
            total.gpu,
            total.disk,
            max(self.ports, 10_000),
            not self.closed,
        )

    @cached_property
    def by_id(self) -> tuple[Device, ...]:
        return tuple(sorted(self.devices, key=lambda device: device.id))

    @cached_property
    def kinds(self) -> tuple[tuple[str, int], ...]:
        """(model, memory) of each device, in the order of their ids: most nodes of a cluster share few of these."""
        return tuple((device.model, device.memory) for device in self.by_id)

    @cached_property
    def quarantine(self) -> str:
        """Which devices are in quarantine, and why; empty: none."""
        return "; ".join(
            f"gpu {device.id} is in quarantine: {device.quarantine}" for device in self.by_id if device.quarantine
        )

    @cached_property
    def packed_devices(self) -> bytes:
        """What each device offers, in the order of their ids."""
        free = [device.offered for device in self.by_id]
        return struct.pack(f"{len(free)}q", *free)


@dataclass(frozen=True)
class Shape:
    """What one task needs. Tasks of equal shape are the same to the planner, so a shape is hashable and shared.

    ``where``: label → values; the node must have one of them. ``runtime``: None: any.
    """

    resources: Resources
    gpu: GpuNeed = ANY_DEVICE
    ports: int = 0
    where: tuple[tuple[str, tuple[str, ...]], ...] = ()
    avoid: tuple[str, ...] = ()
    runtime: str | None = None

    @cached_property
    def amounts(self) -> tuple[tuple[str, int], ...]:
        """(name, amount) of every resource that is needed."""
        return tuple((name, amount) for name, amount in self.resources.amounts().items() if amount)

    @cached_property
    def key(self) -> str:
        """Equal for equal shapes. A string caches its hash, so that comparing 100,000 tasks costs little."""
        r, gpu = self.resources, self.gpu
        key = f"{r.cpu},{r.memory},{r.gpu},{r.disk}"
        if self.ports or self.where or self.avoid or self.runtime or gpu.model or gpu.memory or r.custom:
            key += f",{self.ports},{self.where},{self.avoid},{self.runtime!r},{gpu.model!r},{gpu.memory},{r.custom}"
        return key


@dataclass(frozen=True)
class Demand:
    """``count`` equal tasks of one component that wait only to be placed.

    ``spread``/``pack``: a topology level (``grass.model.job.NODE_LEVEL``: the node). ``gang``: starts together
    with all other gang demands of its job.
    """

    component: str
    count: int
    shape: Shape
    spread: int | None = None
    pack: int | None = None
    gang: bool = False

    @cached_property
    def key(self) -> str:
        """Equal for demands that are the same to the planner."""
        return f"{self.component!r},{self.count},{self.spread},{self.pack},{self.gang};{self.shape.key}"


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job with tasks to place. ``position``: its number in the order of submission (a preempted job keeps its own).

    ``begun``: some task was placed before, so the job limit does not apply. ``seconds``: its time limit once all of it
    is placed; None: unknown. ``reservation_rank``: its number among the jobs that kept a reservation from an earlier
    plan (``Plan.reserved``); they are served before all others of their priority.
    """

    id: str
    user: str
    position: int
    demands: tuple[Demand, ...]
    priority: int = 0
    begun: bool = False
    policy: Policy = Policy.BEST_FIT
    metric: str = "cpu"
    together: int | None = None
    seconds: float | None = None
    reservation_rank: int | None = None

    kind: str = field(default="", init=False, repr=False, compare=False)

    def set_kind(self) -> str:
        """Fill in ``kind``, which is equal for jobs that differ only in their queue position: where one
        does not fit, the next does not fit either.

        Interned: most of 100,000 waiting jobs are of few kinds and share the string."""
        tied = self.begun and (self.together is not None or any(d.pack or d.spread for d in self.demands))
        demands = self.demands
        kind = sys.intern(
            f"{self.priority},{self.user!r},{self.begun},{self.policy.value},{self.metric!r},{self.together},"
            f"{self.seconds},{self.reservation_rank},{self.id if tied else ''}|"
            + (demands[0].key if len(demands) == 1 else "|".join([demand.key for demand in demands]))
        )
        object.__setattr__(self, "kind", kind)
        return kind


@dataclass(frozen=True, slots=True)
class Allocation:
    """``count`` tasks of one component that are allocated on one node.

    ``devices``: those of each task, where they use GPUs. ``ends``: when they must have ended (their time limit), on the
    clock of ``View.now``; None: unknown. ``stopping``: they were told to stop, so their resources are free soon.
    ``gang``: some component of the job is a gang, so the job is evicted whole.
    """

    job: str
    user: str
    component: str
    node: str
    count: int
    shape: Shape
    devices: tuple[DeviceShares, ...] = ()
    priority: int = 0
    preemptible: bool = False
    ends: float | None = None
    stopping: bool = False
    gang: bool = False


@dataclass(frozen=True)
class View:
    """``usage``: user → decayed use of the dominant resource, in any unit (a user who is missing has used nothing).

    ``quotas``: user → the most that all running tasks of that user may use; what a quota does not name is not limited.
    ``level``: most jobs at once (None: no limit), ``running``: jobs that have begun and not ended. ``now``: the time of
    the view, on any clock, so that an allocation can be reused from one view to the next.
    """

    nodes: Sequence[Node]
    queue: Sequence[QueuedJob]
    allocations: Sequence[Allocation] = ()
    usage: Mapping[str, float] = field(default_factory=dict)
    quotas: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    default_quota: Mapping[str, int] = field(default_factory=dict)
    level: int | None = None
    running: int = 0
    now: float = 0.0


@dataclass(frozen=True, slots=True)
class Placement:
    """``count`` tasks of a component go to ``node``. ``devices``: those of each task, where they use GPUs."""

    job: str
    component: str
    node: str
    count: int
    devices: tuple[DeviceShares, ...] = ()


@dataclass(frozen=True)
class Eviction:
    """``count`` tasks of a preemptible job on ``node`` are to be stopped, with notice, for the job ``beneficiary``.

    A job with a gang is evicted whole: one eviction for each of its components and nodes. ``devices``: which tasks, by
    their devices, where they use GPUs (as in ``Allocation.devices``); otherwise any.
    """

    job: str
    component: str
    node: str
    count: int
    beneficiary: str
    devices: tuple[DeviceShares, ...] = ()


class Waiting(Mapping[tuple[str, str], Reason]):
    """(job, component) → reason. ``groups``: (equal jobs, component, reason). The mapping is made on first use, because
    there may be 100,000 jobs."""

    def __init__(self, groups: list[tuple[Sequence[QueuedJob], str, Reason]]) -> None:
        self.groups = groups

    @cached_property
    def _by_key(self) -> dict[tuple[str, str], Reason]:
        return {(job.id, component): reason for jobs, component, reason in self.groups for job in jobs}

    def __getitem__(self, key: tuple[str, str]) -> Reason:
        return self._by_key[key]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._by_key)

    def __len__(self) -> int:
        return len(self._by_key)


@dataclass(frozen=True)
class Plan:
    """``waiting``: (job, component) → the reason, for each demand with a task that was not placed.
    ``reserved``: jobs whose reservation the next view must carry on (``QueuedJob.reservation_rank``): emptying a node
    costs what idles there meanwhile, so a reservation that was begun is kept until its job starts.

    ``Reason.details`` may have ``nodes`` (``grass.model.feasibility.NodeGroup``), ``fits`` (the resources with which
    one task would start now), ``starts_with`` (that in words) and ``starts_in`` (seconds; only where time limits tell).
    """

    placements: list[Placement] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    waiting: Mapping[tuple[str, str], Reason] = field(default_factory=dict)
    reserved: Sequence[str] = ()
