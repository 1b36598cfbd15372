"""Render the answer to `grass job plan`: the node of each component, or why the component would wait. Pure.

*Plan view*: ``grass.wire.views.PlanView`` as JSON. Used by ``dashboard_start`` and ``job``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from grass.cli.amounts import NOTHING, show_reason
from grass.cli.table import Column, paragraph, table
from grass.model.job import Condition
from grass.model.resources import DEVICE

if TYPE_CHECKING:
    from grass.wire.plan_answer import PlannedComponent
    from grass.wire.views import PlanEviction, PlanView

_COLUMNS = (
    Column("COMPONENT"),
    Column("TASKS", right=True),
    Column("NODE"),
    Column("GPUS", drop=1),
    Column("REASON", wrap=True),
)


def page(plan: PlanView, width: int | None) -> list[str]:
    """Return the lines. ``width``: of the terminal; None: output is not a terminal."""
    lines = paragraph(head(plan), width)
    lines += ["", *table(_COLUMNS, rows(plan), width)]
    if plan.evictions:
        lines += ["", *paragraph(evicted(plan.evictions), width)]
    return lines


def head(plan: PlanView) -> str:
    """Return one sentence: whether the job would start."""
    if plan.reason is not None:
        return f"{plan.name} would not start now: {show_reason(plan.reason)}"
    if plan.evictions:
        return f"{plan.name} would start once the tasks being preempted for it have ended"
    placed = sum(_placed(part) for part in plan.components.values())
    wanted = sum(part.at_once for part in plan.components.values())
    if placed == wanted:
        return f"{plan.name} would start now"
    return f"{plan.name} would start in part: {placed} of {wanted} tasks" if placed else f"{plan.name} would wait"


def rows(plan: PlanView) -> list[list[str]]:
    """Return component, tasks, node, GPUs and reason, as text."""
    return [row for name, part in plan.components.items() for row in _rows(name, part)]


def _placed(part: PlannedComponent) -> int:
    return sum(placement.count for placement in part.nodes)


def _rows(name: str, part: PlannedComponent) -> Iterator[list[str]]:
    waits = _waits_for(part.depends_on)
    for placement in part.nodes:
        yield [name, str(placement.count), placement.node, _devices(placement.devices), waits]
    left = part.at_once - _placed(part)
    if left:
        yield [name, str(left), NOTHING, NOTHING, show_reason(part.reason) or waits]
    later = part.replicas - part.at_once
    if later:
        yield [name, str(later), NOTHING, NOTHING, f"at most {part.at_once} run at once"]


def _waits_for(conditions: Mapping[str, Condition]) -> str:
    met = {Condition.SUCCEEDED: "has succeeded", Condition.READY: "is ready", Condition.RUNNING: "is running"}
    parts = [f"{name} {met[how]}" for name, how in conditions.items()]
    return "once " + " and ".join(parts) if parts else ""


def _devices(devices: Sequence[Sequence[int]]) -> str:
    """Return device ids such as ``0,1``; a share of a device as ``2 (0.5)``."""
    shown = [str(number) if share == DEVICE else f"{number} ({share / DEVICE:g})" for number, share in devices]
    return ",".join(shown) or NOTHING


def evicted(evictions: Sequence[PlanEviction]) -> str:
    parts = [
        f"{one.count} {'task' if one.count == 1 else 'tasks'} of {one.job or 'a job of another user'}"
        for one in evictions
    ]
    return f"It would preempt {', '.join(parts)} (lower priority, preemptible)."
