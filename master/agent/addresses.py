"""The addresses file of a job: one line ``task host port name`` for each named port of each task on a node. No I/O.

Tasks find each other by it. ``placement`` and ``tasks`` ask for a new text; the reactor sends it once per round.
"""

from __future__ import annotations

from grass.model.namespace import is_namespace
from grass.wire.task_record import TaskRecord
from master.agent.node_run import NodeRun
from master.agent.set_aside import Work
from master.agent.state import JobRun
from master.agent.step import Step


def publish_addresses(step: Step, run: JobRun) -> None:
    """Have the job's addresses sent at the end of the round. Asking several times in a round costs nothing more."""
    step.changes.addresses_changed[run.id] = run


def send_addresses(step: Step) -> None:
    """Put the current text of each changed job into the desired state of every node that runs a part of it."""
    for run in step.changes.addresses_changed.values():
        step.work = Work("plan", run.id)
        text = addresses_text(step, run)
        for name in run.nodes:
            step.changes.of_node(name).addresses[run.id] = text
    step.work = None
    step.changes.addresses_changed.clear()


def address_of(node: NodeRun, task: TaskRecord) -> str:
    """Return where others reach a task on a node. Empty: its pod has no address yet."""
    return (task.address or "") if is_namespace(node.runtimes) else node.address


def addresses_text(step: Step, run: JobRun) -> str:
    """Return the addresses file of a job as it is now."""
    lines = []
    for component in run.components.values():
        if not component.spec.ports:
            continue
        for index, task in sorted(component.tasks.items()):
            if task.state.on_node and task.node is not None:
                host = address_of(step.cluster.nodes[task.node], task)
                name = f"{run.name}.{component.spec.name}.{index}"
                # a pod has no address at first
                lines += [] if not host else [f"{name} {host} {port} {label}\n" for label, port in task.ports.items()]
    return "".join(lines)
