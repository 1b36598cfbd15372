"""From the planner's plan to assigned tasks, evictions and reasons. Pure: the step carries the effects."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from grass.model.job import container_to_wire, ready_to_wire
from grass.model.lifecycle import JobState, NodeState, TaskState
from master.agent import jobs, vacating
from master.agent.addresses import publish_addresses
from master.agent.booking import book, release, reserve
from master.agent.state import ComponentRun, JobRun, Launch, NodeRun, TaskRun, attempt_key, launch_key
from master.agent.step import Step
from master.agent.telling import tell_waiting
from master.agent.viewing import PORTS, explain, idle_reason, look, port_room
from master.planning.backlog import depth
from master.planning.decide import decide
from master.planning.model import DeviceShares, Placement

LARGE = 2_000
"""From this many nodes, queued jobs and held places on, plans are spaced out: one takes milliseconds by then."""
SPACING = 4e-6
"""Seconds between plans for each of them."""


def place(step: Step) -> None:
    """Assign what finds a place, and give everything else its reason."""
    refill(step)
    if _too_early(step):
        return
    view = look(step)
    if view is None:
        return
    plan = decide(view)
    if not _carry_out(step, plan.placements):
        return
    for eviction in plan.evictions:
        vacating.evict(step, eviction)
    vacating.announce(step, plan.evictions)
    step.cluster.board.reserve(plan.reserved)
    tell_waiting(step, plan.waiting)
    refill(step)


def _carry_out(step: Step, placements: list[Placement]) -> bool:
    """False: there are more than one round should bear, and the rest is planned again in the next. Gangs stay whole."""
    gangs = set[str]()
    left = False
    for placement in placements:
        count = placement.count
        if step.cluster.jobs[placement.job].job.gang:
            if step.room > 0:
                gangs.add(placement.job)
            count = count if placement.job in gangs else 0
        else:
            count = max(0, min(count, step.room))
        if count < placement.count:
            left = True
            placement = replace(placement, count=count, devices=placement.devices[:count])
        if count:
            _assign(step, placement)
    if left:
        step.cluster.board.postponed = True
        step.agenda.add(step.now, "plan")
    return not left


def refill(step: Step) -> None:
    """Let short tasks wait behind their own kind (``planning/backlog.py``), on nodes where something happened."""
    waiting = step.cluster.board.refilling
    waiting.update(dict.fromkeys(step.changes.orders))
    for name in list(waiting):
        if step.room <= 0:
            return
        del waiting[name]
        node = step.cluster.nodes.get(name)
        if node is not None and node.state is NodeState.READY and not node.cordoned:
            _refill_node(step, node)


def _refill_node(step: Step, node: NodeRun) -> None:
    for key, launch in node.launches.items():
        job_id, _, name = key.rpartition("/")
        run = step.cluster.jobs[job_id]
        component = run.components[name]
        if launch.live > 0 and _may_wait(run, component) and not launch.vacating:
            wanted = launch.width + depth(launch.width, component.mean) - launch.live
            count = min(wanted, component.startable, _ports_for(node, component))
            if count > step.room:
                count = max(0, step.room)
                step.cluster.board.refilling[node.name] = None
            if count > 0:
                _tell_width(step, run, component, node, launch)
                for _ in range(count):
                    _assign_one(step, run, component, node, launch, ())
                if component.spec.ports:
                    publish_addresses(step, run)
                step.touch_job(run)


def _may_wait(run: JobRun, component: ComponentRun) -> bool:
    spec = component.spec
    if run.outcome is not None or component.mean is None or spec.name in run.job.gang:
        return False
    return spec.parallelism is None and not spec.resources.gpu and spec.spread is None


def _too_early(step: Step) -> bool:
    board = step.cluster.board
    size = len(board.nodes) + len(board.queue) + len(board.held)
    at = board.planned + (SPACING * size if size > LARGE else 0.0)
    if step.now >= at:
        board.planned = step.now
        board.postponed = False
        return False
    if not board.postponed:
        board.postponed = True
        step.agenda.add(at, "plan")
    return True


def _assign(step: Step, placement: Placement) -> None:
    run = step.cluster.jobs[placement.job]
    component = run.components[placement.component]
    node = step.cluster.nodes[placement.node]
    if run.state is JobState.QUEUED:
        jobs.begin(step, run)
    launch = reserve(step, run, component, node, placement.count)
    for number in range(placement.count):
        devices = placement.devices[number] if placement.devices else ()
        _assign_one(step, run, component, node, launch, devices)
    _tell_width(step, run, component, node, launch)
    explain(step, run, component, idle_reason(component))
    step.touch_job(run)
    if any(part.spec.ports for part in run.components.values()):
        publish_addresses(step, run)


def _ports_for(node: NodeRun, component: ComponentRun) -> int:
    ports = len(component.spec.ports)
    return port_room(node) // ports if ports else component.spec.replicas


def _assign_one(
    step: Step, run: JobRun, component: ComponentRun, node: NodeRun, launch: Launch, devices: DeviceShares
) -> None:
    step.room -= 1
    index = component.take_next()
    task = component.tasks[index]
    if task.state is TaskState.LOST:
        _replace(step, run, component, index, task)
    component.move(task, TaskState.ASSIGNED)
    step.cluster.seq += 1
    task.attempt += 1
    task.node, task.seq, task.vacate = node.name, step.cluster.seq, None
    task.exit_code = task.signal = task.reason = task.started = task.ended = task.pid = task.sizes = None
    task.ports = _take_ports(step, node, component.spec.ports)
    task.gpus = [[device, share] for device, share in devices]
    book(node, launch, index, task)
    if component.spec.timeout is not None:
        launch.until = max(launch.until, step.now + component.spec.timeout + component.spec.grace)
    key = attempt_key(run.id, component.spec.name, index, task.attempt)
    step.changes.order(node.name).put(key, vacating.entry(task, None))
    step.changes.tasks[run.id, component.spec.name, index] = task
    step.touch_node(node)


def _replace(step: Step, run: JobRun, component: ComponentRun, index: int, task: TaskRun) -> None:
    """From here on the lost attempt is not wanted any more, should its node come back."""
    if task.node in step.cluster.nodes:
        step.changes.order(task.node).take(attempt_key(run.id, component.spec.name, index, task.attempt))
        release(step, run, component, index, task)
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
        while port in node.ports or port in ports.values():
            port = step.random.choice(PORTS)
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
        "base": spec.base,
        "ready": None if spec.ready is None else ready_to_wire(spec.ready),
        "grace": spec.grace,
        "timeout": spec.timeout,
        "width": width,
        "framework": spec.framework,
        "runtime": spec.runtime,
        "image": spec.image,
        "limits": {"cpu": spec.resources.cpu, "memory": spec.resources.memory},
        "container": container_to_wire(spec.container),
        "matrix": {name: list(values) for name, values in spec.matrix.items()},
    }
