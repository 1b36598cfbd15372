"""Rebuilds the master-agent's memory from the store. Commits are atomic, so nothing has to be repaired.

Called by the loop at the start, and after a round that failed. ``Loaded`` reads jobs from the store while they are
iterated, which may fail; the caller then begins again.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field

from msgspec import structs

from grass.model.lifecycle import JobState, TaskState
from grass.model.namespace import taken
from grass.model.reasons import Reason, ReasonCode
from grass.store.agent_store import Loaded, LoadedJob
from grass.wire.job_record import JobRecord
from grass.wire.keys import LaunchKey
from grass.wire.launch import LaunchTemplate
from grass.wire.moment import Moment
from grass.wire.node_record import NodeRecord
from grass.wire.operation_record import OperationRecord, OperationState
from grass.wire.task_record import TaskRecord
from master.agent import fairness, job_dependencies, job_end, nodes, scaling, task_dependencies
from master.agent.agenda import Agenda
from master.agent.allocation import allocate_task
from master.agent.component_run import ComponentRun
from master.agent.members import members_of
from master.agent.node_run import ComponentOnNode, Drain, NodeRun
from master.agent.state import Cluster, JobRun


class _Reasons:
    """Equal reasons become one object: those of a queue of thousands are a few sentences."""

    def __init__(self) -> None:
        self._known: dict[tuple[ReasonCode, str], Reason] = {}

    def shared(self, reason: Reason | None) -> Reason | None:
        if reason is None:
            return None
        known = self._known.setdefault((reason.code, reason.message), reason)
        return known if known.details == reason.details else reason


@dataclass(frozen=True)
class _Now:
    """The present. Nodes count as seen now. Moments of this boot keep their meaning; earlier ones have none."""

    at: float
    boot: str
    reasons: _Reasons = field(default_factory=_Reasons)

    def steady_at(self, moment: Moment, otherwise: float) -> float:
        """Return the moment in steady seconds of this boot, or ``otherwise``."""
        return moment.at if moment.boot == self.boot else otherwise


def rebuild(loaded: Loaded, agenda: Agenda, now: float, boot: str, half_life: float = 86400.0) -> Cluster:
    """Return the memory, and fill the agenda. ``now``: steady seconds of ``boot``. ``half_life``: of usage, seconds."""
    at = _Now(now, boot)
    cluster = Cluster(schedules=dict(loaded.schedules), kept_files=dict(loaded.kept_files))
    for name, record in loaded.nodes.items():
        cluster.nodes[name] = _node(cluster, record, agenda, at, loaded.changes.get(name, 0))
    cluster.models_checked = {node.speed.model for node in cluster.nodes.values() if node.speed and node.speed.times}
    _usage(cluster, loaded, at, half_life)
    agenda.add(now + fairness.INTERVAL, "usage")
    runs = [run for job in loaded.jobs if (run := _job(cluster, job, agenda, at)) is not None]
    for run in sorted(runs, key=lambda run: (run.submitted, run.id)):
        cluster.jobs[run.id] = run
        cluster.latest[run.name] = run.id
        if not run.state.ended:
            _requeue(cluster, run)
    for run in cluster.jobs.values():
        if run.job.follows_tasks and run.outcome is None:
            task_dependencies.open_tasks(cluster, run)
    for node in cluster.nodes.values():
        _widths(cluster, node, loaded.launch.get(node.name, {}))
    for run in cluster.jobs.values():
        for component in run.published:
            component.members = members_of(cluster, run, component)
            component.informed = _informed(loaded, run, component)
    _show_all(cluster)
    return cluster


def _informed(loaded: Loaded, run: JobRun, component: ComponentRun) -> frozenset[str]:
    """Return the nodes that were sent the present membership, so that they are not sent it again."""
    key = run.launch(component)
    return frozenset(name for name in run.nodes if loaded.generations[name].get(key) == component.generation)


def _widths(cluster: Cluster, node: NodeRun, templates: dict[LaunchKey, LaunchTemplate]) -> None:
    for key, template in templates.items():
        run = cluster.jobs.get(key.job_id)
        if run is not None and not run.state.ended:  # the template may have outlived the tasks that were there
            run.nodes[node.name] = None
        if (launch := node.launches.get(key)) is not None:
            launch.sent_width = -1 if template.width is None else template.width
            launch.width = max(0, min(launch.sent_width, launch.live))
            cluster.jobs[key.job_id].components[key.component].slots += launch.width
            node.allocated += launch.shape * launch.width


def _show_all(cluster: Cluster) -> None:
    for node in cluster.nodes.values():
        cluster.cache.node_changed(node.name)
        for key in node.launches:
            cluster.cache.launch_changed(node.name, key)
    for job_id in cluster.queue:
        cluster.cache.job_changed(job_id)


def _usage(cluster: Cluster, loaded: Loaded, now: _Now, half_life: float) -> None:
    """Decay the usage up to now. Time before the current boot does not count, because it cannot be measured."""
    cluster.usage_at = now.at
    for user, (value, at, boot) in loaded.usage.items():
        age = max(0.0, now.at - at) if boot == now.boot else 0.0
        cluster.usage[user] = value * 0.5 ** (age / half_life)


def _node(cluster: Cluster, record: NodeRecord, agenda: Agenda, now: _Now, change: int) -> NodeRun:
    node = NodeRun(
        name=record.name,
        state=record.state,
        reason=record.reason,
        address=record.address,
        total=record.resources,
        version=record.version,
        api_port=record.api_port,
        gpus=record.gpus,
        usage=record.usage,
        seen=now.at,
        seen_wall=record.seen,
        boot=record.boot,
        change=change,
        labels=record.labels,
        path=record.path,
        path_note=record.path_note,
        runtimes=record.runtimes,
        default_image=record.default_image,
        programs=record.programs,
        versions=record.versions,
        digest=record.digest,
        cordoned=record.cordoned,
        unfit=record.unfit,
        conditions=record.conditions,
        forgiven=dict(record.forgiven),
        check=record.check,
        condemned=record.condemned,
        bad_devices=dict(record.bad_devices),
        speed=record.speed,
    )
    node.see(record.machines)
    nodes.offer_devices(node)
    nodes.update_devices(node)
    if record.drain is not None:
        user, deadline, remove, address = record.drain
        if deadline is not None:
            deadline = Moment(now.steady_at(deadline, now.at), now.boot)
            agenda.add(deadline.at, "drain", node.name)
        node.drain = Drain(user, deadline, remove, address)
        cluster.leaving.add(node.name)
    return node


def _job(cluster: Cluster, loaded: LoadedJob, agenda: Agenda, now: _Now) -> JobRun | None:
    """Return the memory of a job. None: its specification is not there."""
    record, spec = loaded.record, loaded.spec
    if record.state.ended:
        typical = {name: part.typical for name, part in record.components.items()}
        cluster.durations.note_end(record.user, record.name, record.ended or 0.0, typical)
        return JobRun.past(record)
    if spec is None:
        return None
    run = JobRun.new(spec, record)
    for key, task in loaded.tasks.items():
        _task(cluster, run, run.components[key.component], key.index, task, agenda, now)
    for name, part in run.components.items():
        _finish_component(part, run.state)
        part.reason = now.reasons.shared(record.components[name].reason)
        part.placed = record.components[name].placed
    if run.state in (JobState.QUEUED, JobState.SUSPENDED):
        run.nodes.clear()  # it has left all nodes, which its tasks still name
    run.reason, run.outcome = now.reasons.shared(run.reason), record.outcome
    if record.deadline is not None:
        run.deadline = Moment(now.steady_at(record.deadline, now.at + (run.job.timeout or 0.0)), now.boot)
        agenda.add(run.deadline.at, "deadline", run.id)
    _job_times(run, record, agenda, now)
    _operations(run, loaded, agenda, now)
    return run


def _operations(run: JobRun, loaded: LoadedJob, agenda: Agenda, now: _Now) -> None:
    for recorded in sorted(loaded.operations.values(), key=lambda each: each.number):
        operation = _timed(recorded, now)
        if operation.deadline is not None:
            agenda.add(operation.deadline.at, "operation", run.id, operation.id)
        run.operations = {**run.operations, operation.id: operation}
        if not operation.unfinished or operation.component is None:
            continue
        component = run.components[operation.component]
        if operation.avoid is not None:
            component.avoid = operation.avoid
        if operation.state in (OperationState.RESERVING, OperationState.STARTING) and operation.partial:
            component.whole = False


def _timed(operation: OperationRecord, now: _Now) -> OperationRecord:
    """Return it with times of this boot. After a reboot, a deadline starts again: time before it cannot be measured."""
    if operation.deadline is None:
        return operation
    drains = operation.state is OperationState.DRAINING
    default = scaling.DRAIN_SECONDS if drains else scaling.JOIN_SECONDS
    seconds = default if operation.patience is None else operation.patience
    deadline = Moment(now.steady_at(operation.deadline, now.at + seconds), now.boot)
    until = operation.until and Moment(now.steady_at(operation.until, now.at + seconds), now.boot)
    return structs.replace(operation, deadline=deadline, until=until)


def _job_times(run: JobRun, record: JobRecord, agenda: Agenda, now: _Now) -> None:
    if record.last_deadline is not None:
        later = now.at + (run.job.ending.deadline or 0.0)
        run.last_deadline = Moment(now.steady_at(record.last_deadline, later), now.boot)
        agenda.add(run.last_deadline.at, "deadline", run.id)
    job_end.plan_notices(agenda, run)
    if record.not_before is not None:
        run.not_before = Moment(now.steady_at(record.not_before, now.at), now.boot)
        agenda.add(run.not_before.at, "again", run.id)
    if record.starts is not None:
        agenda.add(now.at, "begin", run.id)


def _requeue(cluster: Cluster, run: JobRun) -> None:
    cluster.queue[run.id] = None
    cluster.positions += 1
    run.position = cluster.positions
    job_dependencies.follow(cluster, run)
    cluster.live[run.name] = run.id
    if run.state is not JobState.QUEUED or run.job.after or run.operations:
        cluster.unsettled[run.id] = None


def _task(
    cluster: Cluster,
    run: JobRun,
    component: ComponentRun,
    index: int,
    task: TaskRecord,
    agenda: Agenda,
    now: _Now,
) -> None:
    cluster.seq = max(cluster.seq, task.seq)
    _carry_no_more(component, index)
    if task.released and not task.state.on_node:
        component.released = component.released or {}
        component.released[index] = task
        return
    component.tasks[index] = task
    if task.released:
        component.leaving += 1
    else:
        component.counts[TaskState.PENDING] -= 1
        component.counts[task.state] += 1
    component.ready += task.ready
    if task.state is TaskState.SUCCEEDED and task.started is not None and task.ended is not None:
        component.sample(max(0.0, task.ended - task.started))
    component.ran = component.ran or task.state is TaskState.RUNNING  # the record of an older Grass does not say it
    node = cluster.nodes.get(task.node or "")
    if node is not None:
        run.nodes[node.name] = None
    if node is not None and (task.state.on_node or task.state is TaskState.LOST):
        launch = node.launches.setdefault(
            run.launch(component), ComponentOnNode(taken(component.spec.resources, node.runtimes), 0)
        )
        allocate_task(node, launch, index, task)
        launch.assigned = now.at
        launch.preempted += task.preempted is not None
        if component.spec.timeout is not None:
            launch.until = now.at + component.spec.timeout + component.spec.grace
    if task.state is TaskState.LOST or (_waits(task) and index not in component.joining):
        heapq.heappush(component.requeued, index)
    elif task.state is TaskState.PENDING and task.not_before is not None:
        component.backoff += 1
        agenda.add(now.steady_at(task.not_before, now.at), "restart", run.id, component.spec.name, index)


def _carry_no_more(component: ComponentRun, index: int) -> None:
    """Forget that a task was carried over: it has a record, because it was removed, or started again since."""
    if component.tasks.pop(index, None) is not None:
        component.counts[TaskState.SUCCEEDED] -= 1
        component.counts[TaskState.PENDING] += 1


def _waits(task: TaskRecord) -> bool:
    """Return whether a task waits for nothing but its turn."""
    return task.state is TaskState.PENDING and task.not_before is None


def _finish_component(component: ComponentRun, state: JobState) -> None:
    if component.closed is not None:
        component.close()
    else:
        _next_tasks(component)
    if state is JobState.STOPPING:
        never = component.counts[TaskState.PENDING]
        component.counts[TaskState.PENDING] = 0
        component.counts[TaskState.STOPPED] += never
        component.start_none()


def _next_tasks(component: ComponentRun) -> None:
    assigned = [
        index for index, task in component.tasks.items() if not task.released and (task.attempt or not task.state.ended)
    ]
    component.next_index = max((*assigned, *component.holes, *component.joining), default=-1) + 1
    beyond = (task for index, task in component.tasks.items() if index >= component.next_index)
    component.skipped = sum(not task.released for task in beyond)
    missing = set(range(component.next_index)) - set(component.tasks) - component.holes
    for index in sorted(missing):  # they were never assigned, and later ones were: new members, mostly
        component.tasks[index] = component.blank(index)
        if index not in component.joining:
            heapq.heappush(component.requeued, index)
    component.entering = deque(index for index in sorted(component.joining) if _waits(component.tasks[index]))
