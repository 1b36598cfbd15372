"""More memory for the tasks of a component, once, after one of them used more than it had (``restart.memory``). Pure.

All tasks of a component need the same. Those that run keep their limit, and what is allocated for them grows, too; so
their nodes must have that much free. Called by ``tasks``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from grass.api.task_token import job_secret
from grass.model.amounts import show_memory
from grass.model.event_kind import EventKind
from grass.model.namespace import taken
from grass.model.reasons import FailureClass, Reason
from grass.model.resources import Resources
from master.agent.component_run import ComponentRun
from master.agent.desired import launch_template
from master.agent.planner_snapshot import node_of
from master.agent.state import JobRun
from master.agent.step import Step
from master.planning.node_table import NodeTable

GROWTH = 1.5


class Grown(NamedTuple):
    """What was done about a task that used more than its memory. ``again``: whether it starts again with more."""

    reason: Reason
    again: bool


def grow(step: Step, run: JobRun, component: ComponentRun, index: int, failure: Reason) -> Grown | None:
    """Let the memory of the component grow if the end of a task calls for it. None: it does not."""
    spec, name = component.spec, f"{component.spec.name}.{index}"
    most, before = spec.restart.memory, spec.resources.memory
    of_memory = failure.failure is FailureClass.OUT_OF_MEMORY and failure.details.get("limit")
    if most is None or spec.grown_from is not None or not of_memory:
        return None
    after = min(most, int(before * GROWTH))
    why_not = _why_not(step, run, component, after)
    if why_not:
        text = f"{failure.message}; the memory of {spec.name} cannot grow to {show_memory(after)}: {why_not}"
        return Grown(replace(failure, message=text), again=False)
    _apply(step, run, component, after)
    said = f"the memory of {spec.name} grows from {show_memory(before)} to {show_memory(after)}"
    run.warnings = (*run.warnings, f"{said}, because {name} used more than it had")
    step.event(EventKind.JOB_SET, f"job {run.name}: {said}, because {name} used more", job=run.name, run=run.id)
    return Grown(replace(failure, message=f"{failure.message}; {said}"), again=True)


def _why_not(step: Step, run: JobRun, component: ComponentRun, after: int) -> str:
    shape = component.shape
    shape = replace(shape, resources=replace(shape.resources, memory=after))
    table = NodeTable(map(node_of, step.cluster.nodes.values()), [name for name, _ in shape.resources.custom])
    if not table.fits_empty(table.need(shape)):
        return "no node is large enough"
    more = after - component.spec.resources.memory
    for name in run.nodes:
        node = step.cluster.nodes[name]
        launch = node.launches.get(run.launch(component))
        if launch is not None and node.free.memory < more * launch.width:
            return f"node {name}, where other tasks of it run, has not that much free"
    return ""


def _apply(step: Step, run: JobRun, component: ComponentRun, after: int) -> None:
    spec = component.spec
    grown = replace(spec, resources=replace(spec.resources, memory=after), grown_from=spec.resources.memory)
    run.job = replace(run.job, components={**run.job.components, spec.name: grown})
    component.spec = grown
    component.form()
    more = Resources(memory=after - spec.resources.memory)
    for name in run.nodes:
        node = step.cluster.nodes[name]
        launch = node.launches.get(run.launch(component))
        if launch is None:
            continue
        launch.shape = taken(grown.resources, node.runtimes)
        node.allocated += more * launch.width
        if launch.live:
            template = launch_template(run, component, launch.width, job_secret(step.limits.secret, run.id))
            step.changes.of_node(name).put_launch(run.launch(component), template)
        else:
            launch.sent_width = -1  # the node gets it with the next task
        step.touch_launch(node, run.launch(component))
    step.changes.respecified[run.id] = run
    step.changes.plan = True
    step.touch_job(run)
