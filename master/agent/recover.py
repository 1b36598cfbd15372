"""Rebuilding the master-agent's memory from what the store holds. Commits are whole, so nothing has to be repaired."""

from __future__ import annotations

import heapq
from typing import Any

from grass.model.job import Job
from grass.model.lifecycle import JobState, NodeState, TaskState
from grass.model.reasons import Reason
from grass.model.resources import Resources
from grass.store.agent_store import Loaded
from master.agent import fairness, nodes, waits
from master.agent.agenda import Agenda
from master.agent.booking import book
from master.agent.state import Cluster, ComponentRun, Drain, JobRun, Launch, NodeRun, TaskRun, launch_key


def new_run(job: Job, view: dict[str, Any]) -> JobRun:
    """The memory of a job of which no task was assigned yet."""
    components = {name: ComponentRun(spec) for name, spec in job.components.items()}
    reason = Reason.from_wire(view["reason"]) if view["reason"] else None
    run = JobRun(view["id"], job, view, components, JobState(view["state"]), reason)
    run.met.update(view.get("met", ()))
    return run


def rebuild(loaded: Loaded, agenda: Agenda, now: float, boot: str, half_life: float = 86400.0) -> Cluster:
    """``now``, ``boot``: every node counts as heard now; moments of this boot keep their meaning."""
    cluster = Cluster(schedules=loaded.schedules)
    for name, view in loaded.nodes.items():
        cluster.nodes[name] = _node(cluster, name, view, agenda, now, boot, loaded.orders.get(name, 0))
    _usage(cluster, loaded, now, boot, half_life)
    agenda.add(now + fairness.INTERVAL, "usage")
    for job_id, view in sorted(loaded.jobs.items(), key=lambda item: (item[1]["submitted"], item[0])):
        if job_id in loaded.specs:
            _job(cluster, loaded, job_id, view, agenda, now, boot)
    for node in cluster.nodes.values():
        for key, template in loaded.launch.get(node.name, {}).items():
            if key in node.launches:
                launch = node.launches[key]
                launch.told = template["width"]
                launch.width = min(launch.told, launch.live)
                node.held += launch.shape * launch.width
    board = cluster.board
    board.stale_nodes.update(dict.fromkeys(cluster.nodes))
    board.stale_jobs.update(dict.fromkeys(cluster.queue))
    board.stale_launches.update(dict.fromkeys((n.name, key) for n in cluster.nodes.values() for key in n.launches))
    return cluster


def _usage(cluster: Cluster, loaded: Loaded, now: float, boot: str, half_life: float) -> None:
    """Each value as of now. The time that a machine was off counts as none: its clock had stopped, too."""
    cluster.usage_at = now
    for user, (value, at, moment_boot) in loaded.usage.items():
        age = max(0.0, now - at) if moment_boot == boot else 0.0
        cluster.usage[user] = value * 0.5 ** (age / half_life)


def _node(
    cluster: Cluster, name: str, view: dict[str, Any], agenda: Agenda, now: float, boot: str, order: int
) -> NodeRun:
    total = Resources.from_wire(view["resources"])
    node = NodeRun(
        name,
        NodeState(view["state"]),
        Reason.from_wire(view["reason"]) if view["reason"] else None,
        view["address"],
        total,
        {"version": view["version"], "api_port": view["api_port"], "gpus": view["gpus"], "seen_wall": view["seen"]},
        view["usage"],
        now,
        view["boot"],
        order=order,
        labels=view["labels"],
        path=tuple(view["path"]),
        runtimes=tuple(view["runtimes"]),
        digest=view.get("digest", ""),
        cordoned=view["cordoned"],
        unfit=Reason.from_wire(view["unfit"]) if view.get("unfit") else None,
        conditions=tuple(Reason.from_wire(each) for each in view.get("conditions", ())),
        forgiven={int(number): count for number, count in view.get("forgiven", {}).items()},
    )
    nodes.set_devices(node, view["gpus"])
    nodes.look_at_devices(node)
    if view["drain"] is not None:
        user, deadline, remove = view["drain"]
        if deadline is not None:
            deadline = (deadline[0] if deadline[1] == boot else now, boot)
            agenda.add(deadline[0], "drain", name)
        node.drain = Drain(user, deadline, remove)
        cluster.leaving.add(name)
    return node


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
        cluster.latest[run.job.name] = run.id
        return
    records = loaded.tasks.get(job_id, {})
    for name, record in records.items():
        component, _, index = name.rpartition(".")
        _task(cluster, run, run.components[component], int(index), TaskRun.from_record(record), agenda, now, boot)
    for name, part in run.components.items():
        _finish_component(part, run.state)
        reason = view["components"][name]["reason"]
        part.reason = Reason.from_wire(reason) if reason else None
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
    cluster.places += 1
    run.place = cluster.places
    cluster.latest[run.job.name] = run.id
    waits.follow(cluster, run)
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
        book(node, launch, index, task)
        launch.vacating += task.vacate is not None
        if component.spec.timeout is not None:
            launch.until = now + component.spec.timeout + component.spec.grace
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
