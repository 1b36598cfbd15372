"""Invariants of the master-agent's memory after every round, checked from scratch."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable

from grass.model.lifecycle import JobState, NodeState, TaskState
from grass.model.resources import DEVICE, Resources
from grass.wire.event_record import EventRecord
from grass.wire.keys import LaunchKey
from master.agent.component_run import ComponentRun
from master.agent.node_run import NodeRun
from master.agent.planner_snapshot import node_of
from master.agent.state import Cluster
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
            gang = [part for name, part in run.components.items() if name in run.job.gang and not part.spec.elastic]
            begun = {part.next_index / part.end for part in gang} or {0.0}
            assert begun in ({0.0}, {1.0}), f"{run.id}: a part of its gang was placed: {begun}"
        for name, component in run.components.items():
            counts = dict.fromkeys(TaskState, 0)
            members = [task for task in component.tasks.values() if not task.released]
            for task in members:
                counts[task.state] += 1
            check_indexes(component, run.outcome is not None)
            never = component.size - len(members)
            counts[TaskState.STOPPED if run.state.ended or run.outcome else TaskState.PENDING] += never
            assert counts == dict(component.counts.items()), f"{run.id}/{name}: {counts} but {component.counts}"
            launches = [node.launches.get(LaunchKey(run.id, name)) for node in cluster.nodes.values()]
            assert component.slots == sum(launch.width for launch in launches if launch), f"{run.id}/{name}"
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


_OBJECT = re.compile(r"(job|node|schedule|task) ([^ ':,]+)[:,]")


def check_events(events: Iterable[EventRecord]) -> None:
    """Check that an event names what its text is about in its fields too: by them, users and programs find it."""
    for event in events:
        found = _OBJECT.match(event.message)
        kind, name = found.groups() if found else ("", "")
        if kind == "task":
            assert event.job and name == f"{event.job}.{event.task}" and event.run, event
        elif kind:
            assert name == getattr(event, kind) and (kind != "job" or event.run), event


def check_indexes(component: ComponentRun, ends: bool) -> None:
    """Check that a component's indexes are unique, and that each of them waits in at most one place."""
    leaving = [index for index, task in component.tasks.items() if task.released]
    assert component.leaving == len(leaving), f"{component.spec.name}: {component.leaving} leave, but {leaving}"
    members = {index for index, task in component.tasks.items() if not task.released}
    assert not members & component.holes
    assert all(index < component.next_index for index in component.holes)
    beyond = sum(index >= component.next_index for index in members)
    assert beyond == component.skipped, f"{component.spec.name}: {component.skipped} skipped, but {sorted(members)}"
    closed = component.closed or set()
    assert not closed & members and len(closed) + len(members) <= component.size + len(leaving)
    assert ends or len(members) + len(closed) - beyond == component.next_index - len(component.holes), (
        f"{component.spec.name}: {sorted(members)}"
    )
    assert component.joining <= members
    waiting = [*component.requeued, *component.entering]
    assert len(waiting) == len(set(waiting)), f"{component.spec.name}: waits twice: {waiting}"
    assert set(component.entering) <= component.joining


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
            shown = sum(one.count for one, _, _ in cache.allocations.get((name, key), []))
            stale = (name, key) in cache.stale_launches or name in cache.stale_nodes or name not in cache.nodes
            assert stale or shown == launch.width, f"{name} {key}: {shown} shown of {launch.width}"
    for job_id, queued in cache.queue.items():
        if job_id not in cache.stale_jobs:
            run = cluster.jobs[job_id]
            wanted: Counter[str] = Counter()
            for demand in queued.demands:
                wanted[demand.component] += demand.count
            for name, count in wanted.items():
                assert count == run.components[name].startable, f"{job_id}: old demand"


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
