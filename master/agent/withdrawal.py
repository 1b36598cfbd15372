"""Attempts that must end while their job goes on: taken out of the membership first, then told to stop. Pure.

Used by ``preemption``, ``halting`` and ``stopped_tasks``, which differ in the reason.
"""

from __future__ import annotations

from grass.model.reasons import Reason, ReasonCode
from master.agent.component_run import ComponentRun
from master.agent.desired import desired_attempt
from master.agent.state import JobRun
from master.agent.step import Step


def withdraw(step: Step, run: JobRun, component: ComponentRun, index: int, reason: Reason) -> None:
    """Take an attempt out of its component's membership. It is not told to stop yet, so that its framework can drain.

    What follows for the task when the attempt has ended depends on ``reason``.
    """
    task = component.tasks[index]
    assert task.node is not None
    node = step.cluster.nodes[task.node]
    key = run.launch(component)
    if task.preempted is None:
        node.launches[key].preempted += 1
    task.preempted = task.reason = reason
    step.changes.tasks[run.id, component.spec.name, index] = task
    step.touch_launch(node, key)
    step.touch_job(run)


def stop(step: Step, run: JobRun, component: ComponentRun, index: int, grace: float | None = None) -> None:
    """Tell a withdrawn attempt to stop. ``grace``: seconds until it is killed; None: as its component says.

    One that a user did not stop gets the notice of its component before."""
    task = component.tasks[index]
    assert task.node is not None
    why = task.preempted
    noticed = component.spec.notice is not None and why is not None and why.code is not ReasonCode.USER_STOPPED
    notice = why.message if why is not None and noticed else ""
    desired = desired_attempt(task, component.spec.grace if grace is None else grace, notice)
    step.changes.of_node(task.node).put(run.attempt(component, index, task), desired)
    step.touch_job(run)
