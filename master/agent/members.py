"""Memberships: which tasks of a component work together, in which order, and which nodes receive them. No I/O.

The reactor sends them once per round, after everything else was decided, so that a membership is always committed with
the change that caused it. ``recover`` rebuilds the members from the tasks for that reason.
"""

from __future__ import annotations

from grass.model.lifecycle import TaskState
from grass.model.ranks import rank_key
from grass.wire.membership import Member, Membership
from grass.wire.task_record import TaskRecord
from master.agent.addresses import address_of
from master.agent.component_run import ComponentRun
from master.agent.node_run import NodeRun
from master.agent.set_aside import Work
from master.agent.state import Cluster, JobRun
from master.agent.step import Step

_PRESENT = frozenset({TaskState.ASSIGNED, TaskState.RUNNING, TaskState.SUCCEEDED})
"""A task that succeeded stays a member: the others must not begin a new generation because the first one is done."""


def send_memberships(step: Step) -> None:
    """Publish the memberships of all jobs that this round changed."""
    for run in step.changes.jobs.values():
        if run.published and run.outcome is None and run.nodes:
            step.work = Work("plan", run.id)
            for component in run.published:
                publish(step, run, component)
            step.work = None


def members_of(cluster: Cluster, run: JobRun, component: ComponentRun) -> tuple[Member, ...]:
    """Return the present members by rank: in the order of their nodes' topology paths, then of their indexes."""
    present = []
    for index, task in component.tasks.items():
        leaves = task.released or task.preempted is not None or index in component.joining
        node = cluster.nodes.get(task.node or "")
        if not leaves and task.state in _PRESENT and node is not None:
            present.append((index, node, task))
    present.sort(key=lambda each: rank_key(each[1].path, each[0]))
    slots = slots_of(component)
    return tuple(
        _member(f"{component.spec.name}.{index}", node, task, slots, rank)
        for rank, (index, node, task) in enumerate(present)
    )


def _member(name: str, node: NodeRun, task: TaskRecord, slots: int, rank: int) -> Member:
    address = address_of(node, task)
    other = "" if address == node.address else node.address
    return Member(name, task.attempt, node.name, address, slots, rank, task.ports, node.api_port, other)


def slots_of(component: ComponentRun) -> int:
    """Return how many workers one task offers: the framework's option ``slots``, its GPUs, or 1."""
    options = component.spec.framework.options if component.spec.framework else {}
    slots = options.get("slots")
    if isinstance(slots, int) and not isinstance(slots, bool) and slots > 0:
        return slots
    return max(1, component.spec.resources.gpu // 1000)


def publish(step: Step, run: JobRun, component: ComponentRun) -> int:
    """Send the membership to nodes that do not have it. Return its generation; 0: it is not published."""
    if all(component is not each for each in run.published):
        return 0
    members = members_of(step.cluster, run, component)
    if members != component.members:
        component.members = members
        component.generation += 1
        component.informed = frozenset()
    uninformed = run.nodes.keys() - component.informed
    if not uninformed or not component.generation:
        return component.generation
    membership = _membership(step, component)
    for name in sorted(uninformed):
        step.changes.of_node(name).membership[run.launch(component)] = membership
    component.informed |= uninformed
    return component.generation


def _membership(step: Step, component: ComponentRun) -> Membership:
    spec, size = component.spec, component.size
    least = spec.min or (spec.unit if spec.max else size)
    most = spec.max or max(size, spec.replicas)
    return Membership(component.generation, step.epoch, size, least, most, spec.unit, component.members)
