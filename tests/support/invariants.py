"""Invariants of the master-agent's memory after every round, checked from scratch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from grass.model.lifecycle import JobState, NodeState, TaskState
from grass.model.resources import DEVICE, Resources
from grass.wire.keys import LaunchKey
from master.agent.planner_view import node_of
from master.agent.state import Cluster, NodeRun
from master.agent.step import Step


def check_invariants(cluster: Cluster, shrunk: Collection[str] = ()) -> None:  # noqa: C901 (one flat list)
    """``shrunk``: nodes that once reported less than before, and may hold more than they have."""
    live: Counter[tuple[str, LaunchKey]] = Counter()
    gpus: dict[tuple[str, int], list[int]] = {}
    ports: Counter[tuple[str, int]] = Counter()
    for run in cluster.jobs.values():
        assert run.state.ended != (run.id in cluster.queue), (
            f"{run.id} is {run.state} and in the queue: {run.id in cluster.queue}"
        )
        if run.state in (JobState.QUEUED, JobState.FAILED):
            assert run.reason or run.state is JobState.QUEUED or run.summarised, (
                f"{run.id} is {run.state} without a reason"
            )
        if run.state.ended:
            continue  # the agent has forgotten its tasks; their records are in the store
        if run.job.gang and run.outcome is None:
            begun = {part.next_index / part.size for name, part in run.components.items() if name in run.job.gang}
            assert begun in ({0.0}, {1.0}), f"{run.id}: a part of its gang was placed: {begun}"
        for name, component in run.components.items():
            counts = dict.fromkeys(TaskState, 0)
            for task in component.tasks.values():
                counts[task.state] += 1
            never = component.size - len(component.tasks)
            counts[TaskState.STOPPED if run.state.ended or run.outcome else TaskState.PENDING] += never
            assert counts == dict(component.counts.items()), f"{run.id}/{name}: {counts} but {component.counts}"
            assert component.ready == sum(task.ready for task in component.tasks.values())
            for index, task in component.tasks.items():
                if task.state.on_node or task.state is TaskState.LOST:
                    assert task.node is not None and not run.state.ended, f"{run.id}/{name}.{index} outlived its job"
                    live[task.node, LaunchKey(run.id, name)] += 1
                    for device, share in task.gpus:
                        gpus.setdefault((task.node, device), []).append(share)
                    assert sum(share for _, share in task.gpus) == component.spec.resources.gpu
                    ports.update((task.node, port) for port in task.ports.values())
                if task.state in (TaskState.FAILED, TaskState.LOST):
                    assert task.reason is not None, f"{run.id}/{name}.{index} is {task.state} without a reason"
    for place, shares in gpus.items():
        assert sum(shares) <= DEVICE, f"device {place} is given away more than whole: {shares}"
    assert all(count == 1 for count in ports.values()), f"shared ports: {ports}"
    for node in cluster.nodes.values():
        check_ledger(node, live, gpus, node.name in shrunk)
    assert not live, f"attempts without a launch: {live}"
    assert not gpus, f"devices that the ledger does not know: {gpus}"
    check_cache(cluster)


def check_ledger(
    node: NodeRun, live: Counter[tuple[str, LaunchKey]], gpus: dict[tuple[str, int], list[int]], shrunk: bool
) -> None:
    """Check that a node's allocations equal those of its tasks. Remove what was found from ``live`` and ``gpus``."""
    for key, launch in node.launches.items():
        assert launch.live == live.pop((node.name, key), 0), f"{node.name} {key}: {launch.live} live"
        assert launch.width <= launch.live
        tasks = launch.tasks.values()
        assert launch.preempted == sum(task.preempted is not None for task in tasks)
    held = sum((launch.shape * launch.width for launch in node.launches.values()), Resources())
    assert held == node.allocated, f"{node.name}: the ledger says {node.allocated}, its launches {held}"
    assert shrunk or held.fits(node.total), f"{node.name} is overbooked: {node.free}"
    for number, device in node.devices.items():
        assert device.allocated == sum(gpus.pop((node.name, number), [])), f"{node.name} device {number}"


def check_cache(cluster: Cluster) -> None:
    """Check that the planner's cached values equal values made from scratch."""
    cache = cluster.cache
    for name, node in cluster.nodes.items():
        if name in cache.nodes and name not in cache.stale_nodes:
            assert cache.nodes[name] == node_of(node), f"the planner is shown an old {name}"
        for key, launch in node.launches.items():
            shown = sum(one.count for one, _ in cache.allocations.get((name, key), []))
            stale = (name, key) in cache.stale_launches or name in cache.stale_nodes or name not in cache.nodes
            assert stale or shown == launch.width, f"{name} {key}: {shown} shown of {launch.width}"
    for job_id, queued in cache.queue.items():
        if job_id not in cache.stale_jobs:
            run = cluster.jobs[job_id]
            for demand in queued.demands:
                assert demand.count == run.components[demand.component].startable, f"{job_id}: old demand"


def check_quotas(cluster: Cluster, step: Step, attempts: dict[tuple[str, str, int], int]) -> None:
    """Check that users who got a placement in this round stay within the quota (a returning node may exceed the quota).

    ``attempts``: the last attempt of each task before this round; updated here.
    """
    placed = set()
    for place, task in step.changes.tasks.items():
        if task.state is TaskState.ASSIGNED and attempts.get(place) != task.attempt:
            placed.add(cluster.jobs[place[0]].user)
        attempts[place] = task.attempt
    for user in placed:
        held = Resources()
        for node in cluster.nodes.values():
            for key, launch in node.launches.items() if node.state is not NodeState.LOST else ():
                if cluster.jobs[key.job_id].user == user:
                    held += launch.shape * launch.width
        quota = step.limits.quotas.get(user, step.limits.default_quota)
        over = {name: held.amount(name) for name, most in quota.items() if held.amount(name) > most}
        assert not over, f"{user} holds {over}, of {quota}"
