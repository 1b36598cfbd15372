"""The addresses file of a job: one line ``task host port name`` for each named port of each task on a node. No I/O.

Tasks find each other by it. ``placement`` and ``tasks`` ask for a new text; the reactor sends it once per round.
"""

from __future__ import annotations

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


def addresses_text(step: Step, run: JobRun) -> str:
    """Return the addresses file of a job as it is now."""
    lines = []
    for component in run.components.values():
        if not component.spec.ports:
            continue
        for index, task in sorted(component.tasks.items()):
            if task.state.on_node and task.node is not None:
                host = step.cluster.nodes[task.node].address
                name = f"{run.name}.{component.spec.name}.{index}"
                lines += [f"{name} {host} {port} {label}\n" for label, port in task.ports.items()]
    return "".join(lines)
