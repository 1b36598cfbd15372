"""From the memory to the planner's view (``planning/model.py``). Pure; only what is stale is made anew."""

from __future__ import annotations

from dataclasses import replace

from grass.model.lifecycle import JobState, NodeState, TaskState
from grass.model.reasons import Reason, ReasonCode
from grass.wire.keys import LaunchKey
from master.agent import jobs, waits
from master.agent.aside import Work
from master.agent.planner_cache import Limited
from master.agent.ports import free_ports
from master.agent.preempting import gathering, shares
from master.agent.state import ComponentRun, JobRun, Launch, NodeRun
from master.agent.step import Step
from master.planning.model import Allocation, Demand, Device, DeviceShares, Node, QueuedJob, View

_UNSEEN = (NodeState.JOINING, NodeState.LEFT, NodeState.LOST)


def look(step: Step) -> View | None:
    """What the planner is to decide on; None when nothing waits for free resources."""
    refresh(step)
    queue = step.cluster.cache.queue
    return view_of(step, list(queue.values())) if queue else None


def view_of(step: Step, queue: list[QueuedJob]) -> View:
    """The cluster as it is (``refresh`` it before), with these jobs waiting."""
    cluster, cache, limits = step.cluster, step.cluster.cache, step.limits
    held = [
        one if until is None else replace(one, ends=max(0.0, until - step.now))
        for group in cache.held.values()
        for one, until in group
    ]
    return View(
        list(cache.nodes.values()),
        queue,
        held,
        cluster.usage,
        limits.quotas,
        limits.default_quota,
        limits.parallel_level,
        _running(step) if limits.parallel_level is not None else 0,
    )


def refresh(step: Step) -> None:
    cache = step.cluster.cache
    for name in cache.stale_nodes:
        _refresh_node(step, name)
    cache.stale_nodes.clear()
    for job_id in list(cache.stale_jobs):  # explaining a job marks it again
        step.work = Work("plan", job_id)
        _refresh_job(step, job_id)
    step.work = None
    cache.stale_jobs.clear()
    for name, key in cache.stale_launches:
        _refresh_launch(step, name, key)
    cache.stale_launches.clear()


def _refresh_node(step: Step, name: str) -> None:
    cache, node = step.cluster.cache, step.cluster.nodes.get(name)
    unseen = node is None or node.state in _UNSEEN
    if unseen is (name in cache.nodes):  # what it holds appears, or disappears, with it
        for key in step.cluster.nodes[name].launches if node else ():
            cache.launch_changed(name, key)
    cache.show_node(name, None if node is None or unseen else node_of(node))


def node_of(node: NodeRun) -> Node:
    devices = tuple(
        Device(number, device.model, device.memory, max(0, 1000 - device.held), device.busy, device.ill)
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
        _closed(node),
        free_ports(len(node.ports)),
    )


def idle_reason(component: ComponentRun) -> Reason | None:
    """Why tasks wait that do not wait for free resources."""
    spec = component.spec
    if not component.counts[TaskState.PENDING] or component.startable:
        return None
    if component.backoff:
        return Reason(ReasonCode.BACKOFF, f"waiting before they start again: {component.backoff} of {spec.name}")
    if spec.parallelism is not None:
        return Reason(ReasonCode.PARALLELISM, f"at most {spec.parallelism} tasks of {spec.name} run at once")
    return None


def explain(step: Step, run: JobRun, component: ComponentRun, reason: Reason | None) -> None:
    if reason != component.reason:
        component.reason = reason
        step.touch_job(run)
    queued = run.state is JobState.QUEUED and reason is not None and reason.code is not ReasonCode.DEPENDS_ON
    if queued and run.reason != reason:
        run.reason = reason
        step.touch_job(run)


def _closed(node: NodeRun) -> str:
    match node.state:
        case NodeState.READY:
            return "cordoned" if node.cordoned else ""
        case NodeState.SILENT:
            return "not heard"
        case NodeState.QUARANTINED:
            return node.reason.message if node.reason else "in quarantine"
    return str(node.state.value).lower()


def _refresh_job(step: Step, job_id: str) -> None:
    cache, run = step.cluster.cache, step.cluster.jobs.get(job_id)
    cache.show_job(job_id, None)
    if run is None or run.state.ended or run.outcome is not None:
        return
    if (aside := step.cluster.aside.get(Work("plan", job_id))) is not None:
        for component in run.components.values():
            explain(step, run, component, aside.reason if component.counts[TaskState.PENDING] else None)
        return
    waits_for = waits.reason(step, run)
    demands = []
    gathers = gathering(step, run) if run.job.gang else 0
    for component in run.components.values():
        unmet = waits_for or (jobs.unmet(run, component.spec) if component.startable else None)
        if gathers and component.startable and unmet is None and component.spec.name in run.job.gang:
            tasks = "1 preempted task has" if gathers == 1 else f"{gathers} preempted tasks have"
            unmet = Reason(ReasonCode.GANG, f"gang starts together, once {tasks} ended")
        if component.startable and unmet is None:
            demands.append(demand(run, component))
        else:
            explain(step, run, component, unmet or idle_reason(component))
    if demands:
        cache.show_job(job_id, queued(run, tuple(demands), cache.reserved.get(job_id)))


def demand(run: JobRun, component: ComponentRun) -> Demand:
    spec = component.spec
    gang = spec.name in run.job.gang
    return Demand(spec.name, component.startable, component.shape, spec.spread, spec.pack, gang)


def queued(run: JobRun, demands: tuple[Demand, ...], rank: int | None = None) -> QueuedJob:
    job = run.job
    return QueuedJob(
        id=run.id,
        user=run.user,
        position=run.position,
        demands=demands,
        priority=job.priority,
        begun=run.state is not JobState.QUEUED,
        policy=job.policy,
        metric=job.metric,
        together=job.together,
        seconds=job.timeout,
        reservation_rank=rank,
    )


def _refresh_launch(step: Step, name: str, key: LaunchKey) -> None:
    cluster = step.cluster
    node = cluster.nodes.get(name)
    launch = node.launches.get(key) if node else None
    run = cluster.jobs.get(key.job_id)
    if node is None or launch is None or run is None or launch.width == 0 or node.state in _UNSEEN:
        cluster.cache.show_launch(name, key, [])
        return
    cluster.cache.show_launch(name, key, _held(run, run.components[key.component], node, launch))


def _held(run: JobRun, component: ComponentRun, node: NodeRun, launch: Launch) -> list[Limited]:
    until = _until(run, component, launch)
    stopping = launch.width if run.outcome is not None else min(launch.preempted, launch.width)
    on = _devices(launch) if component.spec.resources.gpu else ((), ())
    groups: list[Limited] = []
    for count, devices, stops in ((launch.width - stopping, on[0], False), (stopping, on[1], True)):
        if run.outcome is not None:
            devices = (*on[0], *on[1])
        if count:
            held = Allocation(
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
            groups.append((held, until))
    return groups


def _devices(launch: Launch) -> tuple[tuple[DeviceShares, ...], tuple[DeviceShares, ...]]:
    """Of the tasks that go on, and of those that were preempted."""
    goes_on = tuple(shares(task) for task in launch.tasks.values() if task.preempted is None)
    return goes_on, tuple(shares(task) for task in launch.tasks.values() if task.preempted is not None)


def _until(run: JobRun, component: ComponentRun, launch: Launch) -> float | None:
    limits = []
    if run.deadline is not None:
        limits.append(run.deadline.at)
    if component.spec.timeout is not None:
        limits.append(launch.until)
    return min(limits, default=None)


def _running(step: Step) -> int:
    return sum(1 for job_id in step.cluster.queue if step.cluster.jobs[job_id].state is not JobState.QUEUED)
