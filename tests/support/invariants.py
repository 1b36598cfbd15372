"""What must hold of the master-agent's memory after every round, checked from scratch."""

from __future__ import annotations

from collections import Counter

from grass.model.lifecycle import JobState, TaskState
from grass.model.resources import Resources
from master.agent.state import Cluster, launch_key


def check_invariants(cluster: Cluster) -> None:
    live: Counter[tuple[str, str]] = Counter()
    gpus: Counter[tuple[str, int]] = Counter()
    ports: Counter[tuple[str, int]] = Counter()
    for run in cluster.jobs.values():
        assert run.state.ended != (run.id in cluster.queue), (
            f"{run.id} is {run.state} and in the queue: {run.id in cluster.queue}"
        )
        if run.state in (JobState.QUEUED, JobState.FAILED):
            assert run.reason is not None or run.state is JobState.QUEUED, f"{run.id} is {run.state} without a reason"
        if run.state.ended:
            continue  # its tasks are forgotten here; their records are in the store
        for name, component in run.components.items():
            counts = Counter(task.state for task in component.tasks.values())
            never = component.spec.replicas - len(component.tasks)
            counts[TaskState.STOPPED if run.state.ended or run.outcome else TaskState.PENDING] += never
            assert +counts == +component.counts, f"{run.id}/{name}: {counts} but {component.counts}"
            assert component.ready == sum(task.ready for task in component.tasks.values())
            for index, task in component.tasks.items():
                if task.state.on_node or task.state is TaskState.LOST:
                    assert task.node is not None and not run.state.ended, f"{run.id}/{name}.{index} outlived its job"
                    live[task.node, launch_key(run.id, name)] += 1
                    gpus.update((task.node, gpu) for gpu in task.gpus)
                    ports.update((task.node, port) for port in task.ports.values())
                if task.state in (TaskState.FAILED, TaskState.LOST):
                    assert task.reason is not None, f"{run.id}/{name}.{index} is {task.state} without a reason"
    assert all(count == 1 for count in gpus.values()), f"shared devices: {gpus}"
    assert all(count == 1 for count in ports.values()), f"shared ports: {ports}"
    for node in cluster.nodes.values():
        for key, launch in node.launches.items():
            assert launch.live == live.pop((node.name, key), 0), f"{node.name} {key}: {launch.live} live"
        free = node.free
        assert Resources().fits(free), f"{node.name} is overbooked: {free}"
    assert not live, f"attempts without a launch: {live}"
