"""Allocation of slots, devices and ports of a node to tasks, from assignment until the end of the attempt is known.

The only code that changes what is allocated on a node. Used by ``placement``, ``tasks``, ``jobs`` and ``recover``.
A LOST task stays allocated, because its node may come back with it; only its replacement releases it.
"""

from __future__ import annotations

from grass.model.namespace import taken
from grass.wire.task_record import TaskRecord
from master.agent.component_run import ComponentRun
from master.agent.node_run import ComponentOnNode, DeviceRun, NodeRun
from master.agent.state import JobRun
from master.agent.step import Step


def allocate_slots(step: Step, run: JobRun, component: ComponentRun, node: NodeRun, count: int) -> ComponentOnNode:
    """Let ``count`` more tasks of the component run at once on the node. Call ``allocate_task`` for each of them."""
    key = run.launch(component)
    launch = node.launches.get(key)
    if launch is None:
        launch = node.launches[key] = ComponentOnNode(taken(component.spec.resources, node.runtimes), 0)
    launch.width += count
    component.slots += count
    node.allocated += launch.shape * count
    run.nodes[node.name] = None
    step.touch_launch(node, key)
    return launch


def allocate_task(node: NodeRun, launch: ComponentOnNode, index: int, task: TaskRecord) -> None:
    """Record that the task's attempt, with its devices and ports, is on the node."""
    launch.tasks[index] = task
    node.ports.update(task.ports.values())
    for device, share in task.gpus:
        node.devices.setdefault(device, DeviceRun(present=False)).allocated += share


def release(step: Step, run: JobRun, component: ComponentRun, index: int, task: TaskRecord) -> None:
    """Free what the task's last attempt had on its node."""
    node = step.cluster.nodes[task.node or ""]
    key = run.launch(component)
    launch = node.launches[key]
    del launch.tasks[index]
    launch.preempted -= task.preempted is not None
    task.preempted = None
    if launch.width > launch.live:  # no attempt can be using this slot any more
        launch.width = launch.live
        component.slots -= 1
        node.allocated -= launch.shape
    for device, share in task.gpus:
        node.devices[device].allocated -= share
    node.ports.difference_update(task.ports.values())
    if task.ready:
        task.ready = False
        component.ready -= 1
    step.touch_launch(node, key)
