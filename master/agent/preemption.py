"""Preemption of attempts, for a job of higher priority or because their node is drained. Pure (ADR 8).

A preempted attempt is stopped with its component's grace. It stays RUNNING, with the reason, until it has ended; then
its task is placed again. That does not count as a restart, and the job keeps its queue position. Used by
``gangs``, ``node_tickets``, ``placement``, ``planner_snapshot`` and ``tasks``.
"""

from __future__ import annotations

from collections.abc import Iterable

from grass.model.event_kind import EventKind
from grass.model.reasons import Reason, ReasonCode
from grass.wire.keys import LaunchKey
from master.agent import repairs, withdrawal
from master.agent.component_run import ComponentRun
from master.agent.node_run import NodeRun
from master.agent.state import JobRun
from master.agent.step import Step
from master.agent.stopped_tasks import is_stopped
from master.planning.model import Eviction


def evict(step: Step, eviction: Eviction) -> None:
    """Preempt that many tasks of the component on the node, the newest first, and all that wait there behind them."""
    run = step.cluster.jobs[eviction.job]
    node = step.cluster.nodes[eviction.node]
    component = run.components[eviction.component]
    launch = node.launches[run.launch(component)]
    beneficiary = step.cluster.jobs[eviction.beneficiary]
    message = f"preempted by job {beneficiary.name}, which has a higher priority"
    reason = Reason(ReasonCode.PREEMPTED, message, {"job": beneficiary.id})
    wanted = set(eviction.devices)
    here = [
        (task.seq, index)
        for index, task in launch.tasks.items()
        if task.preempted is None and (not wanted or task.gpus in wanted)
    ]
    count = eviction.count + max(0, launch.live - launch.width)
    for _, index in sorted(here, reverse=True)[:count]:
        _preempt(step, run, component, index, reason)


def preempt_all(step: Step, node: NodeRun, reason: Reason, user: str) -> None:
    """Preempt every attempt on the node, because ``user`` drains it.

    Of a gang with a task there preempt all tasks: a gang is placed together. An elastic component does without them.
    """
    gangs: dict[str, JobRun] = {}
    for key, launch in node.launches.items():
        run, name = step.cluster.jobs[key.job_id], key.component
        elastic = run.components[name].spec.elastic
        if name in run.job.gang and not elastic and launch.tasks and run.outcome is None:
            gangs[run.id] = run
        for index, task in launch.tasks.items() if run.outcome is None else ():
            if task.preempted is None and task.state.on_node:
                _preempt(step, run, run.components[name], index, reason, user)
            elif task.state.on_node and not is_stopped(task):  # its framework may still be letting it go
                withdrawal.stop(step, run, run.components[name], index)
    for run in gangs.values():
        for name in run.job.gang:
            component = run.components[name]
            for index, task in component.tasks.items():
                if task.preempted is None and task.state.on_node:
                    _preempt(step, run, component, index, reason, user)


def leave(step: Step, run: JobRun, component: ComponentRun, index: int, reason: Reason) -> None:
    """Take an attempt out of its membership that somebody else ends. It is placed again once it has ended."""
    repairs.evicted(step, run, component, index, reason)
    withdrawal.withdraw(step, run, component, index, reason)


def stop_all(step: Step, run: JobRun, components: Iterable[ComponentRun], reason: Reason) -> int:
    """Stop all tasks of some components, to be placed again. Return how many."""
    stopped = 0
    for component in components:
        for index, task in component.tasks.items():
            if task.preempted is None and task.state.on_node:
                _preempt(step, run, component, index, reason)
                stopped += 1
    return stopped


def unfinished_preemptions(step: Step, run: JobRun) -> int:
    """Return how many preempted tasks of the job's gang still run. The gang is placed again once there are none."""
    keys = [LaunchKey(run.id, name) for name in run.job.gang if not run.components[name].spec.elastic]
    launches = (step.cluster.nodes[name].launches for name in run.nodes if name in step.cluster.nodes)
    return sum(here[key].preempted for here in launches for key in keys if key in here)


def announce(step: Step, evictions: list[Eviction]) -> None:
    """Record one event for each pair of a preempted job and the job that it is preempted for."""
    for job, beneficiary in dict.fromkeys((each.job, each.beneficiary) for each in evictions):
        count = sum(each.count for each in evictions if (each.job, each.beneficiary) == (job, beneficiary))
        victim, other = step.cluster.jobs[job], step.cluster.jobs[beneficiary]
        name = victim.name  # its owner reads the event, and may not see jobs of other users
        for_whom = f"job {other.name}" if other.user == victim.user else "a job of higher priority"
        tasks = "1 task is" if count == 1 else f"{count} tasks are"
        message = f"job {name}: {tasks} being preempted for {for_whom}, and will be placed again"
        step.event(EventKind.JOB_PREEMPTED, message, job=name, run=victim.id, by=other.name)


def _preempt(step: Step, run: JobRun, component: ComponentRun, index: int, reason: Reason, user: str = "") -> None:
    repairs.preempted(step, run, component, index, reason, user)
    withdrawal.withdraw(step, run, component, index, reason)
    withdrawal.stop(step, run, component, index)
