"""Attempts that are told to make room, for a job of higher priority or because their node is drained. Pure.

They are stopped with their grace, and placed again when they have ended: that costs them no restart and their job no
place in line. Until then they are what they are: RUNNING, with the reason.
"""

from __future__ import annotations

from typing import Any

from grass.model.reasons import Reason, ReasonCode
from master.agent.state import ComponentRun, JobRun, NodeRun, TaskRun, attempt_key, launch_key
from master.agent.step import Step
from master.planning.model import DeviceShares, Eviction


def entry(task: TaskRun, grace: float | None) -> dict[str, Any]:
    """What the node is told of an attempt (docs/internals.md); ``grace``: it is to be stopped."""
    stop = None if grace is None else {"grace": grace}
    return {"seq": task.seq, "ports": task.ports, "gpus": task.gpus, "stop": stop}


def evict(step: Step, eviction: Eviction) -> None:
    """Stop so many tasks of the component there, the newest first, and all that wait on the node behind them."""
    run = step.cluster.jobs[eviction.job]
    node = step.cluster.nodes[eviction.node]
    component = run.components[eviction.component]
    launch = node.launches[launch_key(run.id, eviction.component)]
    beneficiary = step.cluster.jobs[eviction.beneficiary]
    message = f"stopped for job {beneficiary.job.name}, which has a higher priority"
    reason = Reason(ReasonCode.PREEMPTED, message, {"job": beneficiary.id})
    wanted = set(eviction.devices)
    here = [
        (task.seq, index)
        for index, task in launch.tasks.items()
        if task.vacate is None and (not wanted or shares(task) in wanted)
    ]
    count = eviction.count + max(0, launch.live - launch.width)
    for _, index in sorted(here, reverse=True)[:count]:
        _vacate(step, run, component, index, reason)


def clear(step: Step, node: NodeRun, reason: Reason) -> None:
    """Every attempt on the node is to go; and of a gang that has one there, all, wherever they are: it is placed again
    as it was placed first, whole."""
    gangs: dict[str, JobRun] = {}
    for key, launch in node.launches.items():
        job_id, _, name = key.rpartition("/")
        run = step.cluster.jobs[job_id]
        if name in run.job.gang and launch.tasks and run.outcome is None:
            gangs[job_id] = run
        for index, task in launch.tasks.items() if run.outcome is None else ():
            if task.vacate is None and task.state.on_node:
                _vacate(step, run, run.components[name], index, reason)
    for run in gangs.values():
        for name in run.job.gang:
            component = run.components[name]
            for index, task in component.tasks.items():
                if task.vacate is None and task.state.on_node:
                    _vacate(step, run, component, index, reason)


def gathering(step: Step, run: JobRun) -> int:
    """How many of its gang were told to make room and have not ended: until then none of it is placed again."""
    keys = [launch_key(run.id, name) for name in run.job.gang]
    launches = (step.cluster.nodes[name].launches for name in run.nodes if name in step.cluster.nodes)
    return sum(here[key].vacating for here in launches for key in keys if key in here)


def shares(task: TaskRun) -> DeviceShares:
    """What it holds of its node's devices."""
    return tuple((device, share) for device, share in task.gpus)


def announce(step: Step, evictions: list[Eviction]) -> None:
    for job, beneficiary in dict.fromkeys((each.job, each.beneficiary) for each in evictions):
        count = sum(each.count for each in evictions if (each.job, each.beneficiary) == (job, beneficiary))
        victim, other = step.cluster.jobs[job], step.cluster.jobs[beneficiary]
        name = victim.job.name  # its owner reads this, who need not know whose the other is
        whom = other.job.name if other.user == victim.user else "a job of higher priority"
        step.event("job-preempted", f"{count} tasks of {name} make room for {whom}", job=name)


def _vacate(step: Step, run: JobRun, component: ComponentRun, index: int, reason: Reason) -> None:
    task = component.tasks[index]
    assert task.node is not None
    node = step.cluster.nodes[task.node]
    key = launch_key(run.id, component.spec.name)
    task.vacate = task.reason = reason.to_wire()
    node.launches[key].vacating += 1
    step.changes.order(node.name).put(
        attempt_key(run.id, component.spec.name, index, task.attempt), entry(task, component.spec.grace)
    )
    step.changes.tasks[run.id, component.spec.name, index] = task
    step.touch_launch(node, key)
    step.touch_job(run)
