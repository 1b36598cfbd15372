"""From the memory to the planner's view, and from its plan to assigned tasks. Pure: the step carries the effects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from grass.model.job import ready_to_wire
from grass.model.lifecycle import JobState, NodeState, TaskState
from grass.model.reasons import Reason, ReasonCode
from grass.model.resources import DEVICE
from master.agent import jobs
from master.agent.addresses import publish_addresses
from master.agent.booking import release
from master.agent.state import ComponentRun, JobRun, Launch, NodeRun, TaskRun, attempt_key, launch_key
from master.agent.step import Step
from master.planning.backlog import depth
from master.planning.planner import plan
from master.planning.view import Demand, JobLimit, NodeView, Placement

PORTS = range(20_000, 32_000)
"""Below the kernel's own range for outgoing connections (from 32768), so that only a listener can hold one."""


def place(step: Step) -> None:
    """Assign what finds a place, and give everything else its reason."""
    _settle_widths(step)
    refill(step)
    considered: dict[tuple[str, str], tuple[JobRun, ComponentRun]] = {}
    result = plan(_nodes(step), _demands(step, considered), _job_limit(step))
    for placement in result.placements:
        run, component = considered[placement.demand.job_id, placement.demand.component]
        if not _assign(step, run, component, placement):
            result.waiting[run.id, component.spec.name] = _no_ports(placement.node)
    for key, (run, component) in considered.items():
        _explain(step, run, component, result.waiting.get(key))
    refill(step)


def refill(step: Step) -> None:
    """Let short tasks wait behind their own kind (``planning/backlog.py``)."""
    for node in step.cluster.nodes.values():
        if node.state is not NodeState.READY:
            continue
        for key, launch in node.launches.items():
            job_id, _, name = key.rpartition("/")
            run = step.cluster.jobs[job_id]
            component = run.components[name]
            if run.outcome is not None or component.spec.resources.gpu or component.spec.parallelism is not None:
                continue
            wanted = launch.width + depth(launch.width, component.mean) - launch.live
            count = min(wanted, component.startable, _port_room(node, component))
            if launch.live > 0 and count > 0:
                _tell_width(step, run, component, node, launch)
                for _ in range(count):
                    _assign_one(step, run, component, node, launch)
                step.touch_job(run)


def _settle_widths(step: Step) -> None:
    """Give back slots that no attempt can be using any more."""
    for node in step.cluster.nodes.values():
        for launch in node.launches.values():
            launch.width = min(launch.width, launch.live)


def _nodes(step: Step) -> list[NodeView]:
    return [
        NodeView(node.name, node.total, node.free, node.state is NodeState.READY)
        for node in step.cluster.nodes.values()
        if node.state not in (NodeState.JOINING, NodeState.LEFT, NodeState.LOST)
    ]


def _demands(step: Step, considered: dict[tuple[str, str], tuple[JobRun, ComponentRun]]) -> Iterator[Demand]:
    """In the order in which jobs are served: priority, then submission."""
    queue = [step.cluster.jobs[job_id] for job_id in step.cluster.queue]
    queue.sort(key=lambda run: -run.job.priority)
    for run in queue:
        if run.outcome is not None:
            continue
        for component in run.components.values():
            waiting = jobs.unmet(run, component.spec) if component.startable else None
            if waiting is not None:
                _explain(step, run, component, waiting)
            elif component.startable:
                considered[run.id, component.spec.name] = (run, component)
                queued = run.state is JobState.QUEUED
                yield Demand(run.id, component.spec.name, component.startable, component.spec.resources, queued)
            else:
                _explain(step, run, component, None)


def _assign(step: Step, run: JobRun, component: ComponentRun, placement: Placement) -> bool:
    """False when the node has too few free ports for all of them; the others wait."""
    node = step.cluster.nodes[placement.node]
    count = min(placement.count, _port_room(node, component))
    if count == 0:
        return False
    if run.state is JobState.QUEUED:
        jobs.begin(step, run)
    key = launch_key(run.id, component.spec.name)
    launch = node.launches.get(key)
    if launch is None:
        launch = node.launches[key] = Launch(component.spec.resources, 0)
    launch.width += count
    for _ in range(count):
        _assign_one(step, run, component, node, launch)
    run.nodes.add(node.name)
    _tell_width(step, run, component, node, launch)
    step.touch_job(run)
    if any(part.spec.ports for part in run.components.values()):
        publish_addresses(step, run)
    return count == placement.count


def _port_room(node: NodeRun, component: ComponentRun) -> int:
    """How many more tasks of the component find ports on the node. A tenth is left free: ports are drawn by chance."""
    ports = len(component.spec.ports)
    return max(0, len(PORTS) * 9 // 10 - len(node.ports)) // ports if ports else component.spec.replicas


def _no_ports(node: str) -> Reason:
    return Reason(ReasonCode.NO_ROOM, f"waits for free ports: too many of {node} are held by tasks", {"node": node})


def _assign_one(step: Step, run: JobRun, component: ComponentRun, node: NodeRun, launch: Launch) -> None:
    index = component.take_next()
    task = component.tasks[index]
    if task.state is TaskState.LOST:
        _replace(step, run, component, index, task)
    component.move(task, TaskState.ASSIGNED)
    launch.live += 1
    step.cluster.seq += 1
    task.attempt += 1
    task.node, task.seq = node.name, step.cluster.seq
    task.exit_code = task.signal = task.reason = task.started = task.ended = task.pid = task.sizes = None
    task.ports = _take_ports(step, node, component.spec.ports)
    task.gpus = [node.gpus.pop() for _ in range(component.spec.resources.gpu // DEVICE)]
    entry = {"seq": task.seq, "ports": task.ports, "gpus": task.gpus, "stop": None}
    step.changes.order(node.name).put(attempt_key(run.id, component.spec.name, index, task.attempt), entry)
    step.changes.tasks[run.id, component.spec.name, index] = task
    step.touch_node(node)


def _replace(step: Step, run: JobRun, component: ComponentRun, index: int, task: TaskRun) -> None:
    """From here on the lost attempt is not wanted any more, should its node come back."""
    if task.node in step.cluster.nodes:
        step.changes.order(task.node).take(attempt_key(run.id, component.spec.name, index, task.attempt))
        release(step, run, component, task)
    component.move(task, TaskState.PENDING)


def _tell_width(step: Step, run: JobRun, component: ComponentRun, node: NodeRun, launch: Launch) -> None:
    """The node must know the width before an attempt that relies on it: both travel in one order."""
    if launch.told != launch.width:
        launch.told = launch.width
        key = launch_key(run.id, component.spec.name)
        step.changes.order(node.name).launch[key] = launch_template(run, component, launch.width)


def _take_ports(step: Step, node: NodeRun, names: tuple[str, ...]) -> dict[str, int]:
    ports: dict[str, int] = {}
    for name in names:
        port = step.random.choice(PORTS)
        while port in node.ports:
            port = step.random.choice(PORTS)
        node.ports.add(port)
        ports[name] = port
    return ports


def launch_template(run: JobRun, component: ComponentRun, width: int) -> dict[str, Any]:
    spec = component.spec
    return {
        "job_id": run.id,
        "job": run.job.name,
        "component": spec.name,
        "replicas": spec.replicas,
        "command": spec.command if isinstance(spec.command, str) else list(spec.command),
        "env": spec.env,
        "cwd": spec.cwd,
        "ready": None if spec.ready is None else ready_to_wire(spec.ready),
        "grace": spec.grace,
        "timeout": spec.timeout,
        "width": width,
        "framework": spec.framework,
    }


def _job_limit(step: Step) -> JobLimit | None:
    level = step.limits.parallel_level
    if level is None:
        return None
    running = sum(1 for job_id in step.cluster.queue if step.cluster.jobs[job_id].state is not JobState.QUEUED)
    return JobLimit(level, running)


def _explain(step: Step, run: JobRun, component: ComponentRun, reason: Reason | None) -> None:
    spec = component.spec
    if reason is None and component.counts[TaskState.PENDING] and not component.startable:
        if component.backoff:
            reason = Reason(ReasonCode.BACKOFF, f"waiting before they start again: {component.backoff} of {spec.name}")
        elif spec.parallelism is not None:
            reason = Reason(ReasonCode.PARALLELISM, f"at most {spec.parallelism} tasks of {spec.name} run at once")
    if reason != component.reason:
        component.reason = reason
        step.touch_job(run)
    if run.state is JobState.QUEUED and reason is not None and reason.code is not ReasonCode.DEPENDS_ON:
        _set_reason(step, run, reason)


def _set_reason(step: Step, run: JobRun, reason: Reason) -> None:
    if run.reason != reason:
        run.reason = reason
        step.touch_job(run)
