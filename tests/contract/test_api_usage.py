"""What a job and its tasks used so far: the records of ended attempts plus the newest samples of running ones."""

from __future__ import annotations

from grass.model.lifecycle import TaskState
from grass.wire.codec import encode as pack
from grass.wire.task_record import TaskRecord
from grass.wire.usage import NodeSample, TaskSample, TaskTotals, UsageSample
from tests.support.api_world import ApiWorld

JOB = {"name": "j", "components": {"w": {"command": "true", "replicas": 3}}}


def test_a_running_attempt_counts_with_its_newest_sample_and_an_ended_one_only_with_its_record(world: ApiWorld) -> None:
    client = world.client()
    job_id = client.start(JOB).id
    tasks = {
        "w.0": TaskRecord(TaskState.RUNNING, 2, "n1", usage=TaskTotals(cpu=10, memory=7)),
        "w.1": TaskRecord(TaskState.SUCCEEDED, 1, "n1", usage=TaskTotals(cpu=5, memory=9)),
    }
    keys = [f"{job_id}/w.0/2", f"{job_id}/w.1/1", "other-12345678/w.2/1"]  # the last sample is from before w.1 ended
    samples = tuple(TaskSample(key=key, cpu=1, memory=8, totals=TaskTotals(cpu=4, memory=8)) for key in keys)
    node = NodeSample(cpu=1, memory=1, memory_total=2, disk_used=1, disk_total=2, network_sent=0, network_received=0)
    world.backend.apply(
        [
            ("HSET", world.keys.tasks(job_id), *(each for name, task in tasks.items() for each in (name, pack(task)))),
            ("XADD", world.keys.node_usage("n1"), 60, "body", pack(UsageSample(1, node, samples))),
        ]
    )
    world.change_job(job_id, state="RUNNING", usage={"cpu": 15, "memory": 9})
    totals = client.job_usage(job_id).totals
    assert (totals.cpu, totals.memory) == (19, 9)
    used = {task.task: task.usage and task.usage.cpu for task in client.tasks(job_id)}
    assert used == {"w.0": 14, "w.1": 5, "w.2": None}
    assert [task.usage.memory for task in client.tasks(job_id, component="w", first=2) if task.usage] == [8]
