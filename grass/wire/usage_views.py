"""The API's answers about usage: the newest figures, totals, and histories as curves. Sent by the API server."""

from __future__ import annotations

import msgspec

from grass.model.lifecycle import TaskState
from grass.wire.codec import Form
from grass.wire.usage import NodeSample, TaskSample, TaskTotals


class Curves(msgspec.Struct, frozen=True):
    """Curves with common times: point ``i`` is at ``start + i * step``."""

    start: float
    """Seconds since the epoch, by the master's clock."""
    step: float
    """Seconds between points: 2 (kept for 15 minutes), 60 (a day) or 900 (31 days). Each point is an average."""
    curves: dict[str, tuple[float | None, ...]]
    """Name → values, all of the same length. None: nothing is known of that time.

    Names are those of the fields of ``NodeSample`` or ``TaskSample``. A field of a GPU is ``gpu<id>.<field>``.

    The curves of a whole job are sums over its tasks. There, ``gpu`` has 100 for each device in use."""


class NodeUsageView(msgspec.Struct, frozen=True):
    node: str
    at: float | None
    """When the node measured ``now``: seconds since the epoch. None: it has not reported usage for two minutes."""
    now: NodeSample | None
    tasks: tuple[TaskSample, ...]
    """The attempts that run there, of jobs that the caller may see."""
    history: Curves


class TaskTotalsView(msgspec.Struct, frozen=True):
    task: str
    """``<component>.<index>``."""
    state: TaskState
    attempt: int
    node: str | None
    totals: TaskTotals | None
    """Totals of all its attempts so far. None: nothing was measured."""
    now: TaskSample | None
    """None: it does not run, or its node has not reported it."""


class JobUsageView(msgspec.Struct, frozen=True):
    id: str
    name: str
    totals: TaskTotals | None
    """Totals of all its tasks so far."""
    tasks: tuple[TaskTotalsView, ...]
    """The assigned tasks: those that use most cpu first, if ``first`` limits their number."""
    count: int
    """How many assigned tasks there are."""
    history: Curves
    """What all its tasks used together."""


class TaskUsageView(msgspec.Struct, frozen=True):
    id: str
    """Id of the job."""
    task: TaskTotalsView
    history: Curves


class OwnCurve(msgspec.Struct, frozen=True):
    """A figure that one task reported of itself. The three lists have the same length."""

    task: str
    name: str
    steps: tuple[float, ...]
    values: tuple[float, ...]
    times: tuple[float, ...]
    """Seconds since the epoch."""
    every: int
    """Every so many of the reported points are kept: 1, 2, 4, …"""


class JobMetricsView(msgspec.Struct, frozen=True):
    id: str
    name: str
    curves: tuple[OwnCurve, ...]
    dropped: int
    """Points of further figures, which were not kept: a job may have a limited number of curves."""
    figures: int = 0
    """Figures of its tasks. Each of 30,000 has its last, least and greatest value, also without a curve."""
    points: int = 0
    """Most points of each curve. The more curves there are, the fewer points each has."""
    not_finite: int = 0
    """Values that are no points of curves, because they are NaN or infinite."""


class ClusterUsageView(msgspec.Struct, frozen=True):
    """Capacity against use. Curves: ``cpu``, ``memory``, ``gpu`` in use; ``cpu_allocated``, …; ``cpu_capacity``, …

    cpu in cores, memory in bytes, gpu in devices; ``nodes`` and ``tasks`` are numbers.
    """

    history: Curves


CLUSTER_USAGE: Form[ClusterUsageView] = Form(ClusterUsageView)
NODE_USAGE: Form[NodeUsageView] = Form(NodeUsageView)
JOB_USAGE: Form[JobUsageView] = Form(JobUsageView)
TASK_USAGE: Form[TaskUsageView] = Form(TaskUsageView)
JOB_METRICS: Form[JobMetricsView] = Form(JobMetricsView)
