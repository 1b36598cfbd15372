"""Gangs that Kubernetes runs in part: they are released, and placed whole later, or elsewhere. Pure.

Grass places a gang whole, as it counts a namespace. Kubernetes may then find machines for some of its pods only. When
one of them was waited for long enough, the others must not hold machines any more: all of them are stopped, which is no
failure of theirs. A gang that once ran whole is not released: a task of it that is replaced waits alone.
Used by ``placement``, ``planner_snapshot``, ``setbacks`` and ``tasks``.
"""

from __future__ import annotations

from collections.abc import Iterable

from grass.model.event_kind import EventKind
from grass.model.lifecycle import TaskState
from grass.model.reasons import Reason, ReasonCode
from master.agent import preemption
from master.agent.component_run import ComponentRun
from master.agent.node_run import NodeRun
from master.agent.state import JobRun
from master.agent.step import Step
from master.planning.model import Placement


def parts(run: JobRun) -> list[ComponentRun]:
    """Return the components whose tasks start together."""
    return [run.components[name] for name in run.job.gang if not run.components[name].spec.elastic]


def incomplete(run: JobRun, component: ComponentRun) -> bool:
    """Return whether the component is of a gang that has not run whole since it was placed."""
    return not run.whole and component in parts(run)


def sizes(step: Step, placements: Iterable[Placement]) -> dict[tuple[str, str], int]:
    """Return (job, node) → how many tasks of a gang are there once these placements are carried out. Note that gangs of
    which nothing is on a node are placed anew."""
    found: dict[tuple[str, str], int] = {}
    for placement in placements:
        run = step.cluster.jobs[placement.job]
        those = parts(run) if placement.component in run.job.gang else []
        if run.components[placement.component] not in those:
            continue
        key = placement.job, placement.node
        if key not in found:
            found[key] = _there(run, step.cluster.nodes[placement.node], those)
            if not any(part.on_node for part in those):
                run.whole = False
        found[key] += placement.count
    return found


def _there(run: JobRun, node: NodeRun, those: Iterable[ComponentRun]) -> int:
    return sum(node.launches[run.launch(part)].live for part in those if run.launch(part) in node.launches)


def note_start(run: JobRun, component: ComponentRun) -> None:
    """A task of the component runs. Note whether its whole gang does."""
    if incomplete(run, component):
        run.whole = all(
            part.counts[TaskState.RUNNING] + part.counts[TaskState.SUCCEEDED] >= part.size for part in parts(run)
        )


def release(step: Step, run: JobRun, component: ComponentRun, index: int, why: Reason) -> None:
    """Stop what runs of a gang, because one of its tasks could not start. ``why``: it could not."""
    name = f"{component.spec.name}.{index}"
    text = f"its gang was released, because {name} could not start ({why.message}); all start together again"
    stopped = preemption.stop_all(step, run, parts(run), Reason(ReasonCode.GANG_INCOMPLETE, text))
    if stopped:
        tasks = "1 task" if stopped == 1 else f"{stopped} tasks"
        message = f"job {run.name}: {name} could not start; {tasks} of its gang stopped; they start together again"
        step.event(EventKind.JOB_PREEMPTED, message, job=run.name, run=run.id)


def waits(run: JobRun) -> Reason | None:
    """Return why no task of a gang is placed now, although some could be: others of it wait for their turn."""
    resting = 0 if run.whole else sum(part.backoff for part in parts(run))
    if not resting:
        return None
    tasks = "1 task of it" if resting == 1 else f"{resting} tasks of it"
    return Reason(ReasonCode.GANG, f"gang starts together, once {tasks} may start again")
