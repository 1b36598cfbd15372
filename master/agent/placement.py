"""From the planner's plan to assigned tasks, preemptions and reasons. Called by the reactor.

No I/O: all effects are in the step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from grass.api.task_token import job_secret
from grass.model.lifecycle import JobState, NodeState, TaskState
from grass.wire.task_record import TaskRecord
from master.agent import checks_before, earlier_attempts, gangs, jobs, preemption
from master.agent.addresses import publish_addresses
from master.agent.allocation import allocate_slots, allocate_task, release
from master.agent.component_run import ComponentRun
from master.agent.desired import desired_attempt, launch_template
from master.agent.fault_containment import contain
from master.agent.node_run import ComponentOnNode, NodeRun
from master.agent.planner_snapshot import current_snapshot, idle_reason, set_reason, snapshot_of
from master.agent.ports import PORTS, free_ports
from master.agent.set_aside import Work
from master.agent.state import JobRun
from master.agent.step import Step
from master.agent.waiting_reasons import record_waiting_reasons
from master.planning.backlog import depth
from master.planning.model import DeviceShares, Placement, Plan, Preferred, QueuedJob

LARGE = 2_000
"""Nodes, queued jobs and launches, in all, from which on plans are spaced out, because each takes milliseconds."""
SPACING = 4e-6
"""Seconds between plans, for each of them."""
_SHOWN = 3
"""Names in a sentence."""
MOST_SET_ASIDE = 8
"""Jobs that one round may set aside because the planner failed on them. The next round finds further ones."""


def place(step: Step) -> None:
    """Assign tasks that fit, preempt for those that may, and give all others a reason."""
    refill(step)
    if _too_early(step):
        return
    plan = _decide(step)
    if plan is None or not _carry_out(step, checks_before.passed(step, plan.placements), plan.preferred):
        return
    for eviction in plan.evictions:
        step.work = Work("plan", eviction.beneficiary)
        preemption.evict(step, eviction)
    step.work = None
    preemption.announce(step, plan.evictions)
    step.cluster.cache.reserve(plan.reserved)
    placed = {placement.job for placement in plan.placements}
    step.cluster.cache.expect({job: at for job, at in plan.estimated.items() if job not in placed}, step.now)
    record_waiting_reasons(step, plan.waiting)
    refill(step)


def _decide(step: Step) -> Plan | None:
    """Return the plan, without jobs on which the planner fails. None: nothing waits, or the next round plans again."""
    for _ in range(MOST_SET_ASIDE):
        snapshot = current_snapshot(step)
        if snapshot is None:
            return None
        try:
            return step.decide(snapshot)
        except Exception as error:  # noqa: BLE001 (a defect of the planner may raise anything; the loop logs it)
            step.errors.append(error)
            contain(step, Work("plan", _failing_job(step, snapshot.queue).id), error)
    step.cluster.cache.postpone()
    step.agenda.add(step.now + 1.0, "plan")
    return None


def _failing_job(step: Step, queue: Sequence[QueuedJob]) -> QueuedJob:
    """Return a job with which the planner fails and without which it does not. Bisects, because queues are long."""
    fine, fails = 0, len(queue)
    while fails - fine > 1:
        middle = (fine + fails) // 2
        try:
            step.decide(snapshot_of(step, list(queue[:middle])))
            fine = middle
        except Exception:  # noqa: BLE001 (as above; the first failure is the one that is reported)
            fails = middle
    return queue[fails - 1]


def _carry_out(step: Step, placements: list[Placement], preferred: Mapping[tuple[str, str], Preferred]) -> bool:
    """Assign the placements. Return False if the round's limit was reached: the next round plans the rest.

    A gang is never divided."""
    begun = set[str]()
    sizes = gangs.sizes(step, placements)
    left = False
    for placement in placements:
        step.work = Work("plan", placement.job)
        count = placement.count
        if not step.cluster.jobs[placement.job].divisible:
            if step.assignable > 0:
                begun.add(placement.job)
            count = count if placement.job in begun else 0
        else:
            count = max(0, min(count, step.assignable))
        whole = count == placement.count
        left = left or not whole
        if count:
            devices = placement.devices[:count]
            chosen = placement if whole else replace(placement, count=count, devices=devices)
            _assign(step, chosen, sizes.get((placement.job, placement.node), 0))
            _note_placed(step, placement, preferred.get((placement.job, placement.component)))
    step.work = None
    if left:
        step.cluster.cache.postpone()
        step.agenda.add(step.now, "plan")
    return not left


def _note_placed(step: Step, placement: Placement, preferred: Preferred | None) -> None:
    """Keep what the planner says of where tasks of the component are; about one task that is placed anew, nothing."""
    component = step.cluster.jobs[placement.job].components[placement.component]
    if preferred is not None:
        names = [f"{name} ({speed:g} x)" for name, speed in preferred.slower]
        slower = ", ".join(names[:_SHOWN]) + (" and others" if len(names) > _SHOWN else "")
        component.placed = f"placed on {_listed(preferred.nodes)}: measured faster than {slower}"
    elif component.on_node == placement.count:
        component.placed = ""


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def refill(step: Step) -> None:
    """Queue short tasks on nodes behind equal ones (``planning/backlog.py``), on nodes where something changed."""
    cache = step.cluster.cache
    cache.refill(step.changes.desired)
    for name in list(cache.refilling):
        if step.assignable <= 0:
            return
        cache.refilled(name)
        node = step.cluster.nodes.get(name)
        if node is not None and node.state is NodeState.READY and not node.cordoned:
            _refill_node(step, node)


def _refill_node(step: Step, node: NodeRun) -> None:
    for key, launch in node.launches.items():
        run = step.cluster.jobs[key.job_id]
        component = run.components[key.component]
        away = node.name in component.away_from
        if launch.live > 0 and _may_wait(run, component) and not launch.preempted and not away:
            work = Work("plan", run.id)
            if work in step.cluster.set_aside:
                continue
            step.work = work
            _refill_launch(step, node, run, component, launch)
            step.work = None


def _refill_launch(step: Step, node: NodeRun, run: JobRun, component: ComponentRun, launch: ComponentOnNode) -> None:
    wanted = launch.width + depth(launch.width, component.mean) - launch.live
    count = min(wanted, component.startable, _ports_for(node, component))
    if count > step.assignable:
        count = max(0, step.assignable)
        step.cluster.cache.refill([node.name])
    if count > 0:
        _send_width(step, run, component, node, launch)
        for _ in range(count):
            _assign_one(step, run, component, node, launch, ())
        if component.spec.ports:
            publish_addresses(step, run)
        step.touch_job(run)


def _may_wait(run: JobRun, component: ComponentRun) -> bool:
    """Return whether tasks of the component may wait on a node behind equal ones (ADR 2)."""
    spec = component.spec
    if run.outcome is not None or component.mean is None or spec.name in run.job.gang:
        return False
    if spec.elastic or spec.framework is not None or run.halting is not None:
        return False
    return spec.parallelism is None and not spec.resources.gpu and spec.spread is None


def _too_early(step: Step) -> bool:
    """Return whether to put the plan off, because the last one was too recent for a cluster of this size."""
    cache = step.cluster.cache
    size = len(cache.nodes) + len(cache.queue) + len(cache.allocations)
    at = cache.planned_at + (SPACING * size if size > LARGE else 0.0)
    if step.now >= at:
        cache.plan_begins(step.now)
        return False
    if not cache.postponed:
        cache.postpone()
        step.agenda.add(at, "plan")
    return True


def _assign(step: Step, placement: Placement, gang: int) -> None:
    """``gang``: how many tasks of the job's gang will be on that node."""
    run = step.cluster.jobs[placement.job]
    component = run.components[placement.component]
    node = step.cluster.nodes[placement.node]
    if run.state is JobState.QUEUED:
        jobs.begin(step, run)
    joined = component.joins
    launch = allocate_slots(step, run, component, node, placement.count)
    for number in range(placement.count):
        devices = placement.devices[number] if placement.devices else ()
        _assign_one(step, run, component, node, launch, devices)
    _send_width(step, run, component, node, launch, gang if component in gangs.parts(run) else 0)
    set_reason(step, run, component, idle_reason(run, component))
    step.touch_job(run)
    step.changes.plan |= component.joins and not joined  # new members come after all others, so their turn is now
    if any(part.spec.ports for part in run.components.values()):
        publish_addresses(step, run)


def _ports_for(node: NodeRun, component: ComponentRun) -> int:
    """Return for how many more tasks the node has free ports."""
    ports = len(component.spec.ports)
    return free_ports(len(node.ports)) // ports if ports else component.size


def _assign_one(
    step: Step, run: JobRun, component: ComponentRun, node: NodeRun, launch: ComponentOnNode, devices: DeviceShares
) -> None:
    step.assignable -= 1
    index = component.take_next()
    task = component.tasks[index]
    earlier_attempts.keep(step, run, component, index)
    if task.state is TaskState.LOST:
        _replace(step, run, component, index, task)
    component.move(task, TaskState.ASSIGNED)
    if component.spec.keep is not None and task.node not in (None, node.name) and task.node in step.cluster.nodes:
        step.changes.of_node(task.node).let_go_of(run.attempt(component, index, task))
    step.cluster.seq += 1
    task.attempt += 1
    task.node, task.seq, task.preempted = node.name, step.cluster.seq, None
    task.exit_code = task.signal = task.reason = task.started = task.ended = task.pid = task.sizes = None
    task.assigned, task.prepared, task.software, task.address = step.wall, None, None, None
    task.log_gaps = 0
    task.ports = _take_ports(step, node, component.spec.ports)
    task.gpus = devices
    allocate_task(node, launch, index, task)
    launch.assigned = step.now
    if component.spec.timeout is not None:
        launch.until = max(launch.until, step.now + component.spec.timeout + component.spec.grace)
    step.changes.of_node(node.name).put(run.attempt(component, index, task), desired_attempt(task, None))
    step.changes.tasks[run.id, component.spec.name, index] = task
    step.touch_node(node)


def _replace(step: Step, run: JobRun, component: ComponentRun, index: int, task: TaskRecord) -> None:
    """Give up the lost attempt of a task that is about to be assigned again. If its node comes back, it ends there."""
    if task.node in step.cluster.nodes:
        step.changes.of_node(task.node).remove_attempt(run.attempt(component, index, task))
        release(step, run, component, index, task)
    component.move(task, TaskState.PENDING)


def _send_width(
    step: Step, run: JobRun, component: ComponentRun, node: NodeRun, launch: ComponentOnNode, gang: int = 0
) -> None:
    """Send the node the launch width, in the same change as the attempts that rely on it."""
    if launch.sent_width != launch.width:
        launch.sent_width = launch.width
        template = launch_template(run, component, launch.width, job_secret(step.limits.secret, run.id), gang)
        step.changes.of_node(node.name).put_launch(run.launch(component), template)


def _take_ports(step: Step, node: NodeRun, names: tuple[str, ...]) -> dict[str, int]:
    ports: dict[str, int] = {}
    for name in names:
        port = step.random.choice(PORTS)
        while port in node.ports or port in ports.values():
            port = step.random.choice(PORTS)
        ports[name] = port
    return ports
