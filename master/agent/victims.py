"""Which tasks leave when a component gets smaller. Pure; called by ``scaling``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from grass.model.lifecycle import TaskState
from grass.wire.task_record import TaskRecord
from master.agent.component_run import ComponentRun
from master.agent.state import Cluster


def choose(cluster: Cluster, component: ComponentRun, count: int, named: Collection[int]) -> list[int]:
    """Return the indexes of ``count`` tasks: named ones first, then those whose loss costs least.

    That is: preempted ones; then those that wait or have failed most; then those in the part of the topology with the
    fewest tasks of the component; then the highest index. Index 0 is chosen only if it is named.
    """
    beside = Counter(_path(cluster, task) for task in component.tasks.values() if task.state.on_node)

    def cost(index: int) -> tuple[int, ...]:
        task = component.tasks.get(index)
        if task is None:
            return (index not in named, index == 0, True, False, 0, 0, -index)
        waits = not task.state.on_node and task.state is not TaskState.SUCCEEDED
        near = beside[_path(cluster, task)] if task.state.on_node else 0
        return (
            index not in named,
            index == 0,
            task.preempted is None,
            not waits,
            -task.restarts,
            near,
            -index,
        )

    chosen = sorted(_indexes(component), key=cost)[:count]
    return sorted(chosen, reverse=True)


def _indexes(component: ComponentRun) -> list[int]:
    return [index for index in range(component.end) if index not in component.holes]


def _path(cluster: Cluster, task: TaskRecord) -> tuple[str, ...]:
    node = cluster.nodes.get(task.node or "")
    return node.path if node is not None else ()
