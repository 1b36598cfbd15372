"""The planner's input and output: frozen values, no I/O, no clock. Made by ``master.agent``.

Amounts are those of ``grass.model.resources``; durations are seconds from the time of the snapshot.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from grass.model.job import GpuNeed, Policy
from grass.model.namespace import is_namespace
from grass.model.reasons import Reason
from grass.model.resources import DEVICE, Resources
from grass.model.runtime import PROCESSES_ONLY, RuntimeName

ANY_DEVICE = GpuNeed()
DeviceShares = tuple[tuple[int, int], ...]
"""The GPUs of one task: (device id, thousandths) of each."""


@dataclass(frozen=True)
class Device:
    """One GPU. ``free``: thousandths that are not allocated; ``busy``: the owner of another program on the GPU.

    ``quarantine``: why the GPU is in quarantine; empty: no quarantine.
    """

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
    def withheld(self) -> str:
        """Return why tasks do not get the device, in words; empty: they may get it."""
        if self.quarantine:
            return f"gpu {self.id} is in quarantine: {self.quarantine}"
        return f"gpu {self.id} is used by {self.busy}, not by a task of this cluster" if self.busy else ""

    @property
    def offered(self) -> int:
        """Free thousandths that a task may use."""
        return self.free if self.usable else 0


_ROW = struct.Struct("12q")


@dataclass(frozen=True)
class Node:
    """One node. ``free``: amounts that are not allocated; negative if the node shrank below its allocations.

    ``path``: in the topology (``("rack1", "switch3")``). ``closed``: why the node accepts no tasks ("draining",
    "silent"); empty: the node is open. The size of a closed node still counts. ``ports``: free named ports.
    ``without_image``: whether it runs tasks without an image. ``programs``: those of frameworks on the PATH of its
    processes; None: not known. ``machines``: labels of the machines of a namespace, if they are seen. ``checkable``:
    whether it is closed, but accepts the task that holds it for a check. ``speed``: beside nodes like it, as measured;
    1.0: as fast as their median, or not known.
    """

    name: str
    total: Resources
    free: Resources
    devices: tuple[Device, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    path: tuple[str, ...] = ()
    runtimes: frozenset[str] = frozenset(PROCESSES_ONLY)
    without_image: bool = True
    programs: frozenset[str] | None = None
    closed: str = ""
    ports: int = 10_000
    machines: tuple[Mapping[str, str], ...] = ()
    checkable: bool = False
    speed: float = 1.0

    @cached_property
    def pods(self) -> bool:
        """Return whether its tasks are pods, which cost more than they ask for (``POD_COST``)."""
        return is_namespace(self.runtimes)

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
            self.pods,
        )

    @cached_property
    def by_id(self) -> tuple[Device, ...]:
        return tuple(sorted(self.devices, key=lambda device: device.id))

    @cached_property
    def kinds(self) -> tuple[tuple[str, int], ...]:
        """Return (model, memory) of each device, in the order of ids: most nodes of a cluster share few such lists."""
        return tuple((device.model, device.memory) for device in self.by_id)

    @cached_property
    def withheld(self) -> str:
        """Return the devices that tasks do not get, and why, in words; empty: none."""
        return "; ".join(device.withheld for device in self.by_id if device.withheld)

    @cached_property
    def packed_devices(self) -> bytes:
        """Return what each device offers, in the order of ids."""
        free = [device.offered for device in self.by_id]
        return struct.pack(f"{len(free)}q", *free)


@dataclass(frozen=True)
class Shape:
    """The needs of one task. The planner treats tasks of equal shape alike, so a shape is hashable and shared.

    ``where``: label → values; the node must have one of the values. ``runtime`` None: any. ``programs``: those of its
    ``framework`` that the node must not be known to lack. ``has_image`` False: the node must run tasks without one.
    ``not_in_pods``: why the node must be no namespace of Kubernetes, except with ``share_helps`` one whose pods have a
    share; empty: it may be one. ``away_from``: nodes that could not start such a task a short time ago.
    ``unchecked``: nodes that have not passed the check that the task wants. ``checks``: the only node where it may run,
    because it holds that one for a check.
    """

    resources: Resources
    gpu: GpuNeed = ANY_DEVICE
    ports: int = 0
    where: tuple[tuple[str, tuple[str, ...]], ...] = ()
    avoid: tuple[str, ...] = ()
    runtime: RuntimeName | None = None
    programs: tuple[str, ...] = ()
    framework: str = ""
    has_image: bool = True
    not_in_pods: str = ""
    share_helps: bool = False
    away_from: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    checks: str = ""

    @cached_property
    def amounts(self) -> tuple[tuple[str, int], ...]:
        """Return (name, amount) of every needed resource."""
        return tuple((name, amount) for name, amount in self.resources.amounts().items() if amount)

    @cached_property
    def key(self) -> str:
        """Key that is equal for equal shapes. A string caches its hash, so comparing 100,000 tasks costs little."""
        r, gpu = self.resources, self.gpu
        key = f"{r.cpu},{r.memory},{r.gpu},{r.disk}"
        if self.ports or self.where or self.avoid or self.runtime or gpu.model or gpu.memory or r.custom:
            key += f",{self.ports},{self.where},{self.avoid},{self.runtime!r},{gpu.model!r},{gpu.memory},{r.custom}"
        if self.programs:
            key += f",{self.programs},{self.framework}"
        if not self.has_image or self.not_in_pods or self.away_from:
            key += f",{self.has_image},{self.not_in_pods},{self.share_helps},{self.away_from}"
        if self.unchecked:
            key += f",unchecked {self.unchecked}"
        return f"{key},checks {self.checks}" if self.checks else key


@dataclass(frozen=True)
class Demand:
    """``count`` equal tasks of one component that only wait for placement.

    ``spread``/``pack``: a topology level (``grass.model.job.NODE_LEVEL``: the node). ``gang``: the tasks start together
    with all other gang demands of the job.
    """

    component: str
    count: int
    shape: Shape
    spread: int | None = None
    pack: int | None = None
    gang: bool = False

    @cached_property
    def key(self) -> str:
        """Key that is equal for demands that the planner treats alike."""
        return f"{self.component!r},{self.count},{self.spread},{self.pack},{self.gang};{self.shape.key}"


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job with tasks to place. ``position``: its number in submission order (a preempted job keeps its position).

    ``begun``: some task was placed before, so the job limit does not apply. ``seconds``: the time limit once the whole
    job is placed; None: unknown. ``expected``: the estimate of the seconds of its longest task, without a time limit.
    ``reservation_rank``: its number among the jobs that kept a reservation from an
    earlier plan (``Plan.reserved``); these jobs are served before all other jobs of their priority.
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
    expected: float | None = None

    kind: str = field(default="", init=False, repr=False, compare=False)

    def set_kind(self) -> str:
        """Set ``kind``, which is equal for jobs that differ only in queue position: if one does not fit, no other fits.

        The string is interned: most of 100,000 waiting jobs are of few kinds and share the string.
        """
        tied = self.begun and (self.together is not None or any(d.pack or d.spread for d in self.demands))
        demands = self.demands
        kind = sys.intern(
            f"{self.priority},{self.user!r},{self.begun},{self.policy.value},{self.metric!r},{self.together},"
            f"{self.seconds},{self.expected},{self.reservation_rank},{self.id if tied else ''}|"
            + (demands[0].key if len(demands) == 1 else "|".join([demand.key for demand in demands]))
        )
        object.__setattr__(self, "kind", kind)
        return kind


@dataclass(frozen=True, slots=True)
class Allocation:
    """``count`` tasks of one component that are allocated on one node.

    ``devices``: of each task that uses GPUs. ``ends``: when the tasks must have ended (their time limit), on the clock
    of ``Snapshot.now``; None: unknown. ``expected``: without a time limit, when they will have ended by an estimate.
    ``stopping``: the tasks were told to stop, so their resources are free soon.
    ``gang``: some component of the job is a gang, so eviction takes the whole job.
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
    expected: float | None = None


@dataclass(frozen=True)
class Snapshot:
    """The cluster at one time.

    ``usage``: user → decayed use of the dominant resource, in any unit; a missing user has used nothing. ``quotas``:
    user → the most that all running tasks of the user may use; a resource without an entry is not limited.
    ``job_limit``: most jobs at once (None: no limit). ``running``: jobs that have begun and not ended. ``now``: the
    time of the snapshot, on any clock, so that the next one can reuse an allocation. ``kept_files``: user → space and
    files in the share. ``late``: jobs that did not start at the time that estimates gave: their reservations are
    planned without estimates.
    """

    nodes: Sequence[Node]
    queue: Sequence[QueuedJob]
    allocations: Sequence[Allocation] = ()
    usage: Mapping[str, float] = field(default_factory=dict)
    quotas: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    default_quota: Mapping[str, int] = field(default_factory=dict)
    job_limit: int | None = None
    running: int = 0
    now: float = 0.0
    kept_files: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    late: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Placement:
    """``count`` tasks of a component go to ``node``. ``devices``: of each task that uses GPUs."""

    job: str
    component: str
    node: str
    count: int
    devices: tuple[DeviceShares, ...] = ()


@dataclass(frozen=True)
class Eviction:
    """``count`` tasks of a preemptible job on ``node`` must stop, with notice, for the job ``beneficiary``.

    A job with a gang is evicted whole: one eviction for each of its components and nodes. ``devices``: identify the
    tasks that use GPUs (as in ``Allocation.devices``); otherwise any tasks may stop.
    """

    job: str
    component: str
    node: str
    count: int
    beneficiary: str
    devices: tuple[DeviceShares, ...] = ()


class Preferred(NamedTuple):
    """Nodes that tasks of a gang got, and nodes that would have done as well, but were measured to be slower.

    ``slower``: (name, speed) of the slowest of these."""

    nodes: tuple[str, ...]
    slower: tuple[tuple[str, float], ...]


class Waiting(Mapping[tuple[str, str], Reason]):
    """(job, component) → reason. ``groups``: (equal jobs, component, reason).

    The mapping is made on first use, because the queue may have 100,000 jobs.
    """

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
    """The result of a plan. ``waiting``: (job, component) → the reason, for each demand with an unplaced task.

    ``reserved``: jobs whose reservation the next plan must carry on (``QueuedJob.reservation_rank``). Emptying a node
    leaves resources idle meanwhile, so a job keeps its reservation until the job starts.

    ``Reason.details`` may have ``nodes`` (``grass.model.feasibility.NodeGroup``), ``fits`` (the resources with which
    one task would start now), ``starts_with`` (the same in words) and ``starts_in`` (seconds; only if it is
    known from time limits) or ``starts_about`` (seconds; if it is known from estimates).

    ``estimated``: each job with a reservation → seconds until it starts, if estimates gave the time, otherwise None. A
    later snapshot names the job in ``Snapshot.late`` when the first such time has passed.

    ``preferred``: (job, component) → the nodes that a gang got because they are faster.
    """

    placements: list[Placement] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    waiting: Mapping[tuple[str, str], Reason] = field(default_factory=dict)
    reserved: Sequence[str] = ()
    estimated: Mapping[str, float | None] = field(default_factory=dict)
    preferred: Mapping[tuple[str, str], Preferred] = field(default_factory=dict)
