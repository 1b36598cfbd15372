"""The ledger: the slots, devices and ports that tasks hold on their nodes, from assignment until the end is known.

A LOST task keeps what it holds: its node may come back with it. Only its replacement gives that free.
"""

from __future__ import annotations

from grass.wire.task_record import TaskRecord
from master.agent.state import ComponentRun, DeviceRun, JobRun, Launch, NodeRun
from master.agent.step import Step


def reserve(step: Step, run: JobRun, component: ComponentRun, node: NodeRun, count: int) -> Launch:
    """``count`` more tasks of the component may run at once on the node; ``book`` follows for each."""
    key = run.launch(component)
    launch = node.launches.get(key)
    if launch is None:
        launch = node.launches[key] = Launch(component.spec.resources, 0)
    launch.width += count
    node.held += launch.shape * count
    run.nodes.add(node.name)
    step.touch_launch(node, key)
    return launch


def book(node: NodeRun, launch: Launch, index: int, task: TaskRecord) -> None:
    """The task's attempt, its devices and ports, are on the node from here on."""
    launch.tasks[index] = task
    node.ports.update(task.ports.values())
    for device, share in task.gpus:
        node.devices.setdefault(device, DeviceRun(present=False)).held += share


def release(step: Step, run: JobRun, component: ComponentRun, index: int, task: TaskRecord) -> None:
    node = step.cluster.nodes[task.node or ""]
    key = run.launch(component)
    launch = node.launches[key]
    del launch.tasks[index]
    launch.preempted -= task.preempted is not None
    task.preempted = None
    if launch.width > launch.live:  # a slot that no attempt can be using any more
        launch.width = launch.live
        node.held -= launch.shape
    for device, share in task.gpus:
        node.devices[device].held -= share
    node.ports.difference_update(task.ports.values())
    if task.ready:
        task.ready = False
        component.ready -= 1
    step.touch_launch(node, key)
