"""Sentences that explain why a task does not start on the nodes of a cluster. Pure; decides nothing.

The one home of these sentences. The planner uses them in reasons, the API in warnings and shortened reasons, and the
CLI in its list of node groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from grass.model.amounts import show_amount, show_quantity, show_span
from grass.model.job import NODE_LEVEL

NO_NODES = "the cluster has no nodes yet"
NO_SINGLE_NODE = "no single node has everything that one task needs"


@dataclass(frozen=True)
class NodeGroup:
    """``count`` nodes that a task cannot use for the same cause.

    ``short``: the amount of ``resource`` that the node ``nearest`` lacks; no resource: the cause is another one.
    """

    count: int
    why: str
    nearest: str
    resource: str = ""
    short: int = 0

    def __str__(self) -> str:
        if self.count == 1:
            short = f"{show_amount(self.resource, self.short)} short" if self.resource else ""
            return f"{self.nearest}: {short or self.why}"
        short = f"{show_quantity(self.resource, self.short)} short"
        nearest = f" (nearest: {self.nearest}, {short})" if self.resource else ""
        return f"{self.count} nodes: {self.why}{nearest}"

    def to_wire(self) -> dict[str, object]:
        wire: dict[str, object] = {"count": self.count, "why": self.why, "nearest": self.nearest}
        if self.resource:
            wire |= {"resource": self.resource, "short": self.short}
        return wire

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> NodeGroup:  # Any: decoded JSON
        return cls(wire["count"], wire["why"], wire["nearest"], wire.get("resource", ""), wire.get("short", 0))


def too_large(resource: str, need: int, largest: int, kind: str = "node") -> str:
    """Say that a task is too large. ``largest``: the largest total amount on a node of this ``kind``."""
    have = show_quantity(resource, largest)
    return f"needs {show_amount(resource, need)} per task; the largest {kind} has {have}"


def gang_too_large(count: int, capacity: int) -> str:
    """Say that the tasks of a gang never fit together. ``capacity``: how many of them the empty cluster holds."""
    return (
        f"gang cannot start: its {count} tasks start together, and the cluster holds only {capacity} of them when "
        "empty; add nodes, or ask for fewer or smaller tasks"
    )


def above_quota(user: str, resource: str, quota: int, need: int) -> str:
    """Say that tasks that start together, or one task, need more than their user may ever use."""
    most, needs = show_amount(resource, quota), show_amount(resource, need)
    return f"needs more than the quota: {user} may use {most}, and this needs {needs} at once"


def lacks_program(program: str, framework: str) -> str:
    """Return the words for a program of a framework that nodes lack."""
    return f"no {program} (framework {framework})"


def starts_with(resource: str, amount: int) -> str:
    """Say with which smaller ``amount`` of a resource the task would start now."""
    return f"starts now with {show_amount(resource, amount)}"


def starts_within(seconds: float) -> str:
    return f"starts within {show_span(ceil(seconds))}, by the time limits of running jobs"


def starts_about(seconds: float) -> str:
    return f"would start in about {show_span(ceil(seconds))}, by how long tasks took before"


def behind(job: str) -> str:
    """Say that the task waits behind a job. ``job``: the job that must not be delayed; empty: not known."""
    return f"a task would fit now, but could delay {job or 'a job'}, which is served first"


def preempting(tasks: int, jobs: str) -> str:
    """Say for whom tasks stop.

    ``tasks``: the number of tasks being stopped; ``jobs``: their jobs in words (``job a``).
    """
    what, have = ("task", "has") if tasks == 1 else (f"{tasks} tasks", "have")
    return f"starts once the {what} being preempted for it (from {jobs}) {have} ended"


def named_jobs(names: Sequence[str], most: int = 3) -> str:
    """Return the names in words: ``job a``, ``jobs a, b``, ``jobs a, b, c and 4 more``."""
    noun = "job" if len(names) == 1 else "jobs"
    return f"{noun} {some(names, most)}"


def some(names: Sequence[str], most: int = 8) -> str:
    """Return the first few names, and the number of the others."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown or "none"


def domain(level: int | None) -> str:
    """Name the domain for tasks that are packed at a topology level."""
    return "on one node" if level == NODE_LEVEL else f"in one domain of topology level {level}"
