"""The ledger's side of a task: its slot, devices and ports on its node, held from assignment until the end is known.

A LOST task keeps what it holds: its node may come back with it. Only its replacement gives that free.
"""

from __future__ import annotations

from master.agent.state import ComponentRun, JobRun, TaskRun, launch_key
from master.agent.step import Step


def release(step: Step, run: JobRun, component: ComponentRun, task: TaskRun) -> None:
    node = step.cluster.nodes[task.node or ""]
    node.launches[launch_key(run.id, component.spec.name)].live -= 1
    node.gpus.update(task.gpus)
    node.ports.difference_update(task.ports.values())
    if task.ready:
        task.ready = False
        component.ready -= 1
    step.touch_node(node)
