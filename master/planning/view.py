"""What the planner is given and what it answers: frozen values, no I/O, no clock."""

from __future__ import annotations

from dataclasses import dataclass, field

from grass.model.reasons import Reason
from grass.model.resources import Resources


@dataclass(frozen=True)
class NodeView:
    """``free``: what the ledger has left. A node that is not ``ready`` takes nothing new, but counts as a size."""

    name: str
    total: Resources
    free: Resources
    ready: bool = True


@dataclass(frozen=True)
class Demand:
    """``count`` equal tasks of one component that could start now."""

    job_id: str
    component: str
    count: int
    shape: Resources
    queued: bool = False
    """Its job has not begun: to begin, it needs room under the job limit."""


@dataclass(frozen=True)
class JobLimit:
    """At most ``level`` jobs at once, of which ``running`` have begun."""

    level: int
    running: int


@dataclass(frozen=True)
class Placement:
    """``count`` of the demand's tasks go to ``node``."""

    demand: Demand
    node: str
    count: int


@dataclass(frozen=True)
class Plan:
    """``waiting`` has one reason for each demand, by (job id, component), of which a task was left without a place."""

    placements: list[Placement] = field(default_factory=list)
    waiting: dict[tuple[str, str], Reason] = field(default_factory=dict)
