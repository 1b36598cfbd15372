"""From the memory to the planner's input (``planning/model.py``). Pure.

Only what ``PlannerCache`` lists as stale is made again. Called by ``placement``, ``preview`` and ``fairness``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from grass.model.exhaustive import assert_never
from grass.model.lifecycle import JobState, NodeState, TaskState
from grass.model.reasons import Reason, ReasonCode
from grass.model.resources import DEVICE
from grass.model.runtime import runs_without_image
from grass.wire.keys import LaunchKey
from master.agent import (
    checks_before,
    gangs,
    job_dependencies,
    job_end,
    job_restart,
    jobs,
    queued_jobs,
    task_dependencies,
)
from master.agent.component_run import ComponentRun
from master.agent.node_run import ComponentOnNode, NodeRun
from master.agent.planner_cache import Limited
from master.agent.ports import free_ports
from master.agent.preemption import unfinished_preemptions
from master.agent.set_aside import Work
from master.agent.state import JobRun
from master.agent.step import Step
from master.planning.model import Allocation, Demand, Device, DeviceShares, Node, QueuedJob, Shape, Snapshot

_NOT_RUNNING = (JobState.QUEUED, JobState.SUSPENDED)
_HIDDEN = (NodeState.JOINING, NodeState.LEFT, NodeState.LOST)


def current_snapshot(step: Step) -> Snapshot | None:
    """Return the planner's input, or None if nothing waits for free resources."""
    refresh(step)
    queue = step.cluster.cache.queue
    return snapshot_of(step, list(queue.values())) if queue else None


def snapshot_of(step: Step, queue: list[QueuedJob]) -> Snapshot:
    """Return the cluster as it is, with these jobs waiting. Call ``refresh`` before."""
    cluster, cache, limits = step.cluster, step.cluster.cache, step.limits
    allocations = [
        one
        if until is None and expected is None
        else replace(one, ends=_left(until, step), expected=_left(expected, step))
        for group in cache.allocations.values()
        for one, until, expected in group
    ]
    return Snapshot(
        list(cache.nodes.values()),
        queue,
        allocations,
        cluster.usage,
        limits.quotas,
        limits.default_quota,
        limits.parallel_level,
        _running(step) if limits.parallel_level is not None else 0,
        kept_files=cluster.kept_files,
        late=[job_id for job_id, at in cache.starts.items() if at <= step.now],
    )


def _left(until: float | None, step: Step) -> float | None:
    return None if until is None else max(0.0, until - step.now)


def refresh(step: Step) -> None:
    """Bring the planner's input up to date."""
    cache = step.cluster.cache
    for name in cache.stale_nodes:
        _refresh_node(step, name)
    cache.stale_nodes.clear()
    for job_id in list(cache.stale_jobs):  # ``set_reason`` marks the job again
        step.work = Work("plan", job_id)
        _refresh_job(step, job_id)
    step.work = None
    cache.stale_jobs.clear()
    for name, key in cache.stale_launches:
        _refresh_launch(step, name, key)
    cache.stale_launches.clear()


def _refresh_node(step: Step, name: str) -> None:
    cache, node = step.cluster.cache, step.cluster.nodes.get(name)
    unseen = node is None or node.state in _HIDDEN
    if unseen is (name in cache.nodes):  # its allocations appear, or disappear, with it
        for key in step.cluster.nodes[name].launches if node else ():
            cache.launch_changed(name, key)
    cache.show_node(name, None if node is None or unseen else node_of(node))


def node_of(node: NodeRun) -> Node:
    """Return a node as the planner sees it."""
    devices = tuple(
        Device(number, device.model, device.memory, max(0, DEVICE - device.allocated), device.busy, device.quarantine)
        for number, device in sorted(node.devices.items())
        if device.present
    )
    return Node(
        node.name,
        node.total,
        node.free,
        devices,
        node.labels,
        node.path,
        frozenset(node.runtimes),
        runs_without_image(node.runtimes, node.default_image),
        None if node.programs is None else frozenset(node.programs),
        _closed_reason(node),
        free_ports(len(node.ports)),
        node.machine_labels,
        _is_checkable(node),
        1.0 if node.speed is None else node.speed.value,
    )


def idle_reason(run: JobRun, component: ComponentRun) -> Reason | None:
    """Return why pending tasks of the component wait, if it is not for free resources."""
    spec = component.spec
    if not component.counts[TaskState.PENDING] or component.startable:
        return None
    if component.backoff:
        tasks = "1 task" if component.backoff == 1 else f"{component.backoff} tasks"
        return Reason(ReasonCode.BACKOFF, f"{tasks} of {spec.name} waiting to be restarted")
    limit = spec.parallelism
    if component.closed and (limit is None or component.on_node < limit):
        return task_dependencies.waiting(run, component)
    if spec.parallelism is not None:
        return Reason(ReasonCode.PARALLELISM, f"at most {spec.parallelism} tasks of {spec.name} run at once")
    return None


def set_reason(step: Step, run: JobRun, component: ComponentRun, reason: Reason | None) -> None:
    """Record why tasks of the component wait; if the job is queued, also as the job's reason."""
    if reason != component.reason:
        component.reason = reason
        step.touch_job(run)
    queued = run.state is JobState.QUEUED and reason is not None and reason.code is not ReasonCode.DEPENDS_ON
    if queued and run.reason != reason:
        run.reason = reason
        step.touch_job(run)


def _closed_reason(node: NodeRun) -> str:
    """Return why the node accepts no tasks, as it appears in reasons of jobs; empty: it accepts tasks."""
    match node.state:
        case NodeState.READY:
            return "cordoned" if node.cordoned else ""
        case NodeState.SILENT:
            return "silent"
        case NodeState.QUARANTINED:
            return node.reason.message if node.reason else "in quarantine"
        case NodeState.DRAINING | NodeState.DRAINED | NodeState.STOPPED:
            return str(node.state.value).lower()
        case NodeState.JOINING | NodeState.LOST | NodeState.LEFT:
            return str(node.state.value).lower()
        case _:
            assert_never(node.state)


def _is_checkable(node: NodeRun) -> bool:
    """Return whether it is closed by an administrator's choice or by a check alone."""
    if node.unfit is not None or node.conditions:
        return False
    return node.state is NodeState.QUARANTINED or (node.state is NodeState.READY and node.cordoned)


def _refresh_job(step: Step, job_id: str) -> None:
    cache, run = step.cluster.cache, step.cluster.jobs.get(job_id)
    cache.show_job(job_id, None)
    if run is None or run.state.ended or run.outcome is not None:
        return
    if (set_aside := step.cluster.set_aside.get(Work("plan", job_id))) is not None:
        for component in run.components.values():
            set_reason(step, run, component, set_aside.reason if component.counts[TaskState.PENDING] else None)
        return
    if run.state is JobState.SUSPENDED or run.halting is not None:
        for component in run.components.values():
            set_reason(step, run, component, run.reason if component.counts[TaskState.PENDING] else None)
        return
    waits_for = queued_jobs.reason(run) or job_restart.waits(run) or job_dependencies.reason(step, run)
    demands = []
    gang = _gang_waits(step, run) if run.job.gang else None
    for component in run.components.values():
        unmet = waits_for or (_unmet(run, component, gang) if component.startable else None)
        if component.startable and unmet is None:
            demands += demands_of(run, component)
        else:
            set_reason(step, run, component, unmet or idle_reason(run, component))
    if demands:
        estimate = longest_estimate(step, run, demands)
        cache.show_job(job_id, queued(run, tuple(demands), cache.reserved.get(job_id), estimate))


def longest_estimate(step: Step, run: JobRun, demands: Iterable[Demand]) -> float | None:
    """Return the longest estimate of the demands' tasks; None: that of one is not known."""
    parts = [run.components[demand.component] for demand in demands]
    found = [step.cluster.durations.estimate(run.user, run.name, part) for part in parts]
    known = [each for each in found if each is not None]
    return max(known) if known and len(known) == len(found) else None


def _unmet(run: JobRun, component: ComponentRun, gang: Reason | None) -> Reason | None:
    """Return why no startable task of the component is placed now. ``gang``: why none of the gang is."""
    unmet = jobs.unmet(run, component.spec) or checks_before.waits(run, component)
    return gang if unmet is None and component.spec.name in run.job.gang else unmet


def _gang_waits(step: Step, run: JobRun) -> Reason | None:
    """Return why no task of a gang is placed now, although some could be."""
    preempted = unfinished_preemptions(step, run)
    if preempted:
        tasks = "1 preempted task has" if preempted == 1 else f"{preempted} preempted tasks have"
        return Reason(ReasonCode.GANG, f"gang starts together, once {tasks} ended")
    return gangs.waits(run)


def demands_of(run: JobRun, component: ComponentRun) -> list[Demand]:
    """Return the component's startable tasks as the planner sees them.

    ``min`` tasks start together; the planner places the others only if those have their places.
    """
    spec, count = component.spec, component.startable
    if component.joins:
        parts = [(count, component.whole)]
    elif spec.min is not None:
        first = min(count, component.missing)
        parts = [(first, True), (count - first, False)]
    else:
        parts = [(count, spec.name in run.job.gang)]
    shape = component.demanded
    return [_demand(spec.name, part, shape, spec.spread, spec.pack, gang) for part, gang in parts if part]


@lru_cache(maxsize=4096)
def _demand(component: str, count: int, shape: Shape, spread: int | None, pack: int | None, gang: bool) -> Demand:
    """Shared by equal demands, as shapes are."""
    return Demand(component, count, shape, spread, pack, gang)


def queued(
    run: JobRun, demands: tuple[Demand, ...], rank: int | None = None, estimate: float | None = None
) -> QueuedJob:
    """Return a job as the planner sees it. ``rank``: see ``QueuedJob.reservation_rank``; ``estimate``: of a task."""
    job, limit = run.job, job_end.time_limit(run)
    return QueuedJob(
        id=run.id,
        user=run.user,
        position=run.position,
        demands=demands,
        priority=job.priority,
        begun=run.state is not JobState.QUEUED or any(part.checks for part in job.components.values()),
        policy=job.policy,
        metric=job.metric,
        together=job.together,
        seconds=limit,
        reservation_rank=rank,
        expected=estimate if limit is None else None,
    )


def _refresh_launch(step: Step, name: str, key: LaunchKey) -> None:
    cluster = step.cluster
    node = cluster.nodes.get(name)
    launch = node.launches.get(key) if node else None
    run = cluster.jobs.get(key.job_id)
    if node is None or launch is None or run is None or launch.width == 0 or node.state in _HIDDEN:
        cluster.cache.show_launch(name, key, [])
        return
    component = run.components[key.component]
    estimate = cluster.durations.estimate(run.user, run.name, component)
    cluster.cache.show_launch(name, key, _allocations(run, component, node, launch, estimate))


def _allocations(
    run: JobRun, component: ComponentRun, node: NodeRun, launch: ComponentOnNode, estimate: float | None
) -> list[Limited]:
    until = _until(run, component, launch)
    expected = launch.assigned + estimate if until is None and estimate is not None else None
    stopping = launch.width if run.outcome is not None else min(launch.preempted, launch.width)
    running, ending = _devices(launch) if component.spec.resources.gpu else ((), ())
    if run.outcome is not None:
        running, ending = (), (*running, *ending)
    groups: list[Limited] = []
    for count, devices, stops in ((launch.width - stopping, running, False), (stopping, ending, True)):
        if count:
            allocation = Allocation(
                job=run.id,
                user=run.user,
                component=component.spec.name,
                node=node.name,
                count=count,
                shape=component.shape,
                devices=devices,
                priority=run.job.priority,
                preemptible=run.job.preemptible,
                stopping=stops,
                gang=bool(run.job.gang),
            )
            groups.append((allocation, until, expected))
    return groups


def _devices(launch: ComponentOnNode) -> tuple[tuple[DeviceShares, ...], tuple[DeviceShares, ...]]:
    """Return the devices of tasks that go on, and those of preempted tasks."""
    going_on = tuple(task.gpus for task in launch.tasks.values() if task.preempted is None)
    return going_on, tuple(task.gpus for task in launch.tasks.values() if task.preempted is not None)


def _until(run: JobRun, component: ComponentRun, launch: ComponentOnNode) -> float | None:
    """Return the steady time at which time limits end the launch's tasks, or None."""
    limits = job_end.must_end_by(run)
    if component.spec.timeout is not None:
        limits.append(launch.until)
    return min(limits, default=None)


def _running(step: Step) -> int:
    return sum(1 for job_id in step.cluster.queue if step.cluster.jobs[job_id].state not in _NOT_RUNNING)
