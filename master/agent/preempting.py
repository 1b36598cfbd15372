"""Attempts that are preempted, for a job of higher priority or because their node is drained. Pure.

They are stopped with their grace, and placed again once they have ended. That costs them no restart, and their job
keeps its queue position. Until they end they are RUNNING, with the reason.
"""

from __future__ import annotations

from grass.model.reasons import Reason, ReasonCode
from grass.wire.keys import LaunchKey
from grass.wire.task_record import TaskRecord
from master.agent.desired import desired_attempt
from master.agent.state import ComponentRun, JobRun, NodeRun
from master.agent.step import Step
from master.planning.model import DeviceShares, Eviction


def evict(step: Step, eviction: Eviction) -> None:
    """Stop so many tasks of the component there, the newest first, and all that wait on the node behind them."""
    run = step.cluster.jobs[eviction.job]
    node = step.cluster.nodes[eviction.node]
    component = run.components[eviction.component]
    launch = node.launches[run.launch(component)]
    beneficiary = step.cluster.jobs[eviction.beneficiary]
    message = f"stopped for job {beneficiary.name}, which has a higher priority"
    reason = Reason(ReasonCode.PREEMPTED, message, {"job": beneficiary.id})
    wanted = set(eviction.devices)
    here = [
        (task.seq, index)
        for index, task in launch.tasks.items()
        if task.preempted is None and (not wanted or shares(task) in wanted)
    ]
    count = eviction.count + max(0, launch.live - launch.width)
    for _, index in sorted(here, reverse=True)[:count]:
        _preempt(step, run, component, index, reason)


def clear(step: Step, node: NodeRun, reason: Reason) -> None:
    """Every attempt on the node is to go; and of a gang that has one there, all, wherever they are: it is placed again
    as it was placed first, whole."""
    gangs: dict[str, JobRun] = {}
    for key, launch in node.launches.items():
        run, name = step.cluster.jobs[key.job_id], key.component
        if name in run.job.gang and launch.tasks and run.outcome is None:
            gangs[run.id] = run
        for index, task in launch.tasks.items() if run.outcome is None else ():
            if task.preempted is None and task.state.on_node:
                _preempt(step, run, run.components[name], index, reason)
    for run in gangs.values():
        for name in run.job.gang:
            component = run.components[name]
            for index, task in component.tasks.items():
                if task.preempted is None and task.state.on_node:
                    _preempt(step, run, component, index, reason)


def gathering(step: Step, run: JobRun) -> int:
    """How many of its gang were preempted and have not ended: until then none of it is placed again."""
    keys = [LaunchKey(run.id, name) for name in run.job.gang]
    launches = (step.cluster.nodes[name].launches for name in run.nodes if name in step.cluster.nodes)
    return sum(here[key].preempted for here in launches for key in keys if key in here)


def shares(task: TaskRecord) -> DeviceShares:
    """What it holds of its node's devices."""
    return task.gpus


def announce(step: Step, evictions: list[Eviction]) -> None:
    for job, beneficiary in dict.fromkeys((each.job, each.beneficiary) for each in evictions):
        count = sum(each.count for each in evictions if (each.job, each.beneficiary) == (job, beneficiary))
        victim, other = step.cluster.jobs[job], step.cluster.jobs[beneficiary]
        name = victim.name  # its owner reads this, who need not know whose the other is
        whom = other.name if other.user == victim.user else "a job of higher priority"
        step.event("job-preempted", f"{count} tasks of {name} make room for {whom}", job=name)


def _preempt(step: Step, run: JobRun, component: ComponentRun, index: int, reason: Reason) -> None:
    task = component.tasks[index]
    assert task.node is not None
    node = step.cluster.nodes[task.node]
    key = run.launch(component)
    task.preempted = task.reason = reason
    node.launches[key].preempted += 1
    desired = desired_attempt(task, component.spec.grace)
    step.changes.of_node(node.name).put(run.attempt(component, index, task), desired)
    step.changes.tasks[run.id, component.spec.name, index] = task
    step.touch_launch(node, key)
    step.touch_job(run)
