"""What follows when Kubernetes did not run a task that a node took, or a fault of the node ended it: where it goes
then, and after which wait. Pure.

A pod may find no machine for as long as others use them. If another node could run the task, tasks of its component
stay away from that node for a while, and those of its gang, if that is placed again as a whole. Otherwise, or if they
belong together, the task is tried there again. Waits grow until a task of the component starts on the node. A new
master-agent has forgotten them. Used by ``halting``, ``reactor`` and ``tasks``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from grass.backoff import wait_after
from master.agent import gangs
from master.agent.component_run import ComponentRun, Setback
from master.agent.planner_snapshot import node_of
from master.agent.state import JobRun
from master.agent.step import Step
from master.planning.node_table import NodeTable

FIRST_AWAY, LONGEST_AWAY = 60.0, 600.0
"""Seconds for which tasks of a component stay away from a node on which one could not start."""
FIRST_AGAIN, LONGEST_AGAIN = 5.0, 60.0
"""Seconds until a task is tried again on the only node that could run it, or that ended it."""


def note(step: Step, run: JobRun, component: ComponentRun, node: str, *, began: bool) -> float:
    """Note that a task could not start on a node, or was ended there. Return the seconds until it is placed again."""
    known = component.setbacks.get(node)
    whole = gangs.incomplete(run, component) and not began  # all of the gang is placed again
    parts = gangs.parts(run) if whole else [component]
    tied = any(part.spec.pack is not None for part in parts) or run.job.together is not None
    tied = tied or (component.spec.name in run.job.gang and not whole)
    elsewhere = not tied and all(could_run_elsewhere(step, part, (*part.away_from, node)) for part in parts)
    if elsewhere and known is not None and known.until is not None:
        return 0.0  # its component stays away already
    failures = 1 + (known.failures if known else 0)
    if began or not elsewhere:
        component.setbacks = {**component.setbacks, node: Setback(failures)}
        return wait_after(failures, FIRST_AGAIN, LONGEST_AGAIN)
    until = step.now + wait_after(failures, FIRST_AWAY, LONGEST_AWAY)
    for part in parts:
        part.setbacks = {**part.setbacks, node: Setback(failures, until)}
        step.agenda.add(until, "setback", run.id, part.spec.name)
    return 0.0


def blame(step: Step, run: JobRun, component: ComponentRun, node: str) -> float:
    """Note that a fault of a node ended a task. Return the seconds until it is placed again, elsewhere if possible."""
    known = component.setbacks.get(node)
    failures = 1 + (known.failures if known else 0)
    tied = component.spec.pack is not None or run.job.together is not None
    if tied or not could_run_elsewhere(step, component, (*component.away_from, node)):
        component.setbacks = {**component.setbacks, node: Setback(failures)}
        return wait_after(failures, FIRST_AGAIN, LONGEST_AGAIN)
    until = step.now + LONGEST_AWAY
    component.setbacks = {**component.setbacks, node: Setback(failures, until)}
    step.agenda.add(until, "setback", run.id, component.spec.name)
    return 0.0


def due(step: Step, run: JobRun, component: ComponentRun) -> None:
    """Let tasks of the component go again to nodes that they have stayed away from for long enough."""
    over = {name for name, each in component.setbacks.items() if each.until is not None and each.until <= step.now}
    if over:
        kept = component.setbacks.items()
        component.setbacks = {name: each._replace(until=None) if name in over else each for name, each in kept}
        step.changes.plan = True
        step.touch_job(run)


def forget(component: ComponentRun, node: str) -> None:
    """A task of the component has started on the node."""
    if node in component.setbacks:
        component.setbacks = {name: each for name, each in component.setbacks.items() if name != node}


def could_run_elsewhere(step: Step, component: ComponentRun, nodes: Sequence[str]) -> bool:
    """Return whether another node than these could run a task of the component if it were empty."""
    shape = replace(component.shape, avoid=(*component.shape.avoid, *nodes))
    table = NodeTable(map(node_of, step.cluster.nodes.values()), [name for name, _ in shape.resources.custom])
    return table.fits_empty(table.need(shape))
