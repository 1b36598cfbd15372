"""Rebuilding the master-agent's memory from what the store holds. Commits are whole, so nothing has to be repaired."""

from __future__ import annotations

import heapq
from typing import Any

from grass.model.job import Job
from grass.model.lifecycle import JobState, NodeState, TaskState
from grass.model.reasons import Reason
from grass.model.resources import DEVICE, Resources
from grass.store.agent_store import Loaded
from master.agent.agenda import Agenda
from master.agent.state import Cluster, ComponentRun, JobRun, Launch, NodeRun, TaskRun, launch_key


def new_run(job: Job, view: dict[str, Any]) -> JobRun:
    """The memory of a job of which no task was assigned yet."""
    components = {name: ComponentRun(spec) for name, spec in job.components.items()}
    reason = Reason.from_wire(view["reason"]) if view["reason"] else None
    return JobRun(view["id"], job, view, components, JobState(view["state"]), reason)


def rebuild(loaded: Loaded, agenda: Agenda, now: float, boot: str) -> Cluster:
    """``now``, ``boot``: every node counts as heard now; moments of this boot keep their meaning."""
    cluster = Cluster(schedules=loaded.schedules)
    for name, view in loaded.nodes.items():
        cluster.nodes[name] = _node(name, view, now, loaded.orders.get(name, 0))
    for job_id, view in sorted(loaded.jobs.items(), key=lambda item: (item[1]["submitted"], item[0])):
        if job_id in loaded.specs:
            _job(cluster, loaded, job_id, view, agenda, now, boot)
    for node in cluster.nodes.values():
        for key, template in loaded.launch.get(node.name, {}).items():
            if key in node.launches:
                node.launches[key].width = node.launches[key].told = template["width"]
    return cluster


def _node(name: str, view: dict[str, Any], now: float, order: int) -> NodeRun:
    total = Resources.from_wire(view["resources"])
    return NodeRun(
        name,
        NodeState(view["state"]),
        Reason.from_wire(view["reason"]) if view["reason"] else None,
        view["address"],
        total,
        {"version": view["version"], "api_port": view["api_port"], "gpus": view["gpus"], "seen_wall": view["seen"]},
        view["usage"],
        now,
        view["boot"],
        gpus=set(range(total.gpu // DEVICE)),
        order=order,
    )


def _job(
    cluster: Cluster, loaded: Loaded, job_id: str, view: dict[str, Any], agenda: Agenda, now: float, boot: str
) -> None:
    run = new_run(loaded.specs[job_id], view)
    if run.state.ended:
        for part in run.components.values():
            counts = view["components"][part.spec.name]["counts"]
            part.counts.clear()
            part.counts.update({TaskState(state): count for state, count in counts.items()})
        cluster.jobs[job_id] = run
        return
    records = loaded.tasks.get(job_id, {})
    for name, record in records.items():
        component, _, index = name.rpartition(".")
        _task(cluster, run, run.components[component], int(index), TaskRun.from_record(record), agenda, now, boot)
    for part in run.components.values():
        _finish_component(part, run.state)
    if view.get("outcome"):
        state, reason, code = view["outcome"]
        run.outcome = (JobState(state), Reason.from_wire(reason) if reason else None, code)
    cluster.jobs[job_id] = run
    _requeue(cluster, run)
    if view.get("deadline"):
        at, moment_boot = view["deadline"]
        timeout = run.job.timeout or 0.0
        run.deadline = (at, boot) if moment_boot == boot else (now + timeout, boot)
        agenda.add(run.deadline[0], "deadline", run.id)


def _requeue(cluster: Cluster, run: JobRun) -> None:
    cluster.queue[run.id] = None
    cluster.live[run.job.name] = run.id


def _task(
    cluster: Cluster,
    run: JobRun,
    component: ComponentRun,
    index: int,
    task: TaskRun,
    agenda: Agenda,
    now: float,
    boot: str,
) -> None:
    component.tasks[index] = task
    component.counts[TaskState.PENDING] -= 1
    component.counts[task.state] += 1
    component.ready += task.ready
    cluster.seq = max(cluster.seq, task.seq)
    node = cluster.nodes.get(task.node or "")
    if node is not None:
        run.nodes.add(node.name)
    if node is not None and (task.state.on_node or task.state is TaskState.LOST):
        key = launch_key(run.id, component.spec.name)
        launch = node.launches.setdefault(key, Launch(component.spec.resources, 0))
        launch.live += 1
        node.gpus.difference_update(task.gpus)
        node.ports.update(task.ports.values())
    if task.state is TaskState.LOST or (task.state is TaskState.PENDING and task.not_before is None):
        heapq.heappush(component.again, index)
    elif task.state is TaskState.PENDING and task.not_before is not None:
        at, moment_boot = task.not_before
        component.backoff += 1
        agenda.add(at if moment_boot == boot else now, "restart", run.id, component.spec.name, index)


def _finish_component(component: ComponentRun, state: JobState) -> None:
    component.fresh = max(component.tasks, default=-1) + 1
    missing = set(range(component.fresh)) - set(component.tasks)
    for index in missing:  # cannot happen: tasks are assigned in order; if it does, they are simply started
        component.tasks[index] = TaskRun()
        heapq.heappush(component.again, index)
    if state is JobState.STOPPING:
        never = component.counts[TaskState.PENDING]
        component.counts[TaskState.PENDING] = 0
        component.counts[TaskState.STOPPED] += never
        component.fresh = component.spec.replicas
        component.again.clear()
