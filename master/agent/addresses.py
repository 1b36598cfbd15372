"""The addresses file of a job: a line ``task host port name`` for each named port of each task on a node. No I/O."""

from __future__ import annotations

from master.agent.aside import Work
from master.agent.state import JobRun
from master.agent.step import Step


def publish_addresses(step: Step, run: JobRun) -> None:
    """At the end of the round, however often it is asked for: the text is as long as the job is wide."""
    step.changes.moved[run.id] = run


def send_addresses(step: Step) -> None:
    """The present text of every job whose tasks have moved, to every node that runs a part of it."""
    for run in step.changes.moved.values():
        step.work = Work("plan", run.id)
        text = addresses_text(step, run)
        for name in run.nodes:
            step.changes.of_node(name).addresses[run.id] = text
    step.work = None
    step.changes.moved.clear()


def addresses_text(step: Step, run: JobRun) -> str:
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
