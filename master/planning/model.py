"""What the planner is given and what it answers: frozen values, no I/O, no clock.

Amounts are those of ``grass.model.resources``; durations are seconds from the moment of the view.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from grass.model.job import GpuNeed, Policy
from grass.model.reasons import Reason
from grass.model.resources import DEVICE, Resources

ANY_DEVICE = GpuNeed()
DeviceShares = tuple[tuple[int, int], ...]
"""What one task holds of a node's GPUs: (device id, thousandths) of each."""


@dataclass(frozen=True)
class Device:
    """One GPU. ``free``: thousandths that nobody holds; ``busy``: who owns a program on it that is not Grass's."""

    id: int
    model: str = ""
    memory: int = 0
    free: int = DEVICE
    busy: str = ""


@dataclass(frozen=True)
class Node:
    """``free``: what the ledger has left (negative when the node has shrunk below what it holds).

    ``path``: its place in the topology (``("rack1", "switch3")``). ``closed``: why it takes nothing new ("draining",
    "not heard for 12 s"); empty: it is open. A closed node still counts as a size. ``ports``: free named ports.
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


@dataclass(frozen=True)
class Shape:
    """What one task needs. Tasks of equal shape are the same to the planner, so it is hashable and shared.

    ``where``: label → values of which the node must have one. ``runtime``: None when any will do.
    """

    resources: Resources
    gpu: GpuNeed = ANY_DEVICE
    ports: int = 0
    where: tuple[tuple[str, tuple[str, ...]], ...] = ()
    avoid: tuple[str, ...] = ()
    runtime: str | None = None


@dataclass(frozen=True)
class Demand:
    """``count`` equal tasks of one component that wait for nothing but a place.

    ``spread``/``pack``: a topology level (``grass.model.job.NODE_LEVEL``: the node). ``gang``: it starts only together
    with all other gang demands of its job.
    """

    component: str
    count: int
    shape: Shape
    spread: int | None = None
    pack: int | None = None
    gang: bool = False


@dataclass(frozen=True)
class QueuedJob:
    """A job with tasks to place. ``place``: its number in the order of submission (a preempted job keeps its own).

    ``begun``: some task was placed before, so it needs no room under the job limit. ``seconds``: the most that it can
    take once all of it is placed (its time limit), None when nobody knows.
    """

    id: str
    user: str
    place: int
    demands: tuple[Demand, ...]
    priority: int = 0
    begun: bool = False
    policy: Policy = Policy.BEST_FIT
    metric: str = "cpu"
    together: int | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Held:
    """``count`` tasks of one component that hold a place on one node.

    ``devices``: what each of them holds, where they use GPUs. ``ends``: seconds until they must have ended (their time
    limit), None when nobody knows. ``stopping``: they were told to stop, so what they hold comes free soon.
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


@dataclass(frozen=True)
class View:
    """``usage``: user → decayed use of the dominant resource, any unit (a user who is not in it has used nothing).

    ``quotas``: user → the most that all running tasks of that user may hold; what a quota does not name is not limited.
    ``level``: most jobs at once (None: no limit), ``running``: jobs that have begun and not ended.
    """

    nodes: Sequence[Node]
    queue: Sequence[QueuedJob]
    held: Sequence[Held] = ()
    usage: Mapping[str, float] = field(default_factory=dict)
    quotas: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    default_quota: Mapping[str, int] = field(default_factory=dict)
    level: int | None = None
    running: int = 0


@dataclass(frozen=True)
class Placement:
    """``count`` tasks of a component go to ``node``; ``devices`` has what each of them gets, where they use GPUs."""

    job: str
    component: str
    node: str
    count: int
    devices: tuple[DeviceShares, ...] = ()


@dataclass(frozen=True)
class Eviction:
    """``count`` tasks of a preemptible job on ``node`` are to be stopped, with notice, for the job ``beneficiary``.

    A job with a gang is evicted whole: one eviction for each component and node of it.
    """

    job: str
    component: str
    node: str
    count: int
    beneficiary: str


@dataclass(frozen=True)
class Plan:
    """``waiting``: one true reason for each demand, by (job, component), of which a task was left without a place.

    Its ``details`` may hold ``nodes`` (groups: count, why, the nearest node and how much it is short), ``fits`` (the
    resources with which one task would start now) and ``starts_in`` (seconds; only when time limits tell).
    """

    placements: list[Placement] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    waiting: dict[tuple[str, str], Reason] = field(default_factory=dict)
