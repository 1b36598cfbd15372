"""`grass node remove --drain`, against the API: what it waits for, and for how long."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from grass.cli.invocation import Invocation
from grass.cli.node_remove import drain_first
from grass.cli.output import Output
from grass.errors import WaitTimeoutError
from grass.model.lifecycle import NodeState, TaskState
from grass.model.resources import Resources
from grass.wire.codec import encode
from grass.wire.task_record import TaskRecord
from master.agent.node_run import NodeRun
from master.agent.records import node_record
from tests.support.api_world import ApiWorld, api_world

JOB = {"name": "train", "components": {"w": {"command": "true", "replicas": 2}}}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ApiWorld]:
    """Node n1 with one of two tasks of a job that runs. There is no master-agent, so its drain never ends."""
    with api_world(tmp_path) as world:
        node = NodeRun("n1", total=Resources(4000, 8 << 30))
        node.state = NodeState.READY
        job = world.client("ann").start(JOB).id
        part = {"w": {"replicas": 2, "counts": {"RUNNING": 2}, "reason": None}}
        world.change_job(job, state="RUNNING", counts={"RUNNING": 2}, components=part)
        tasks = [encode(TaskRecord(TaskState.RUNNING, attempt=1, node=name)) for name in ("n1", "n2")]
        world.backend.apply(
            [
                ("HSET", world.keys.nodes, "n1", encode(node_record(node))),
                ("HSET", world.keys.tasks(job), "w.0", tasks[0], "w.1", tasks[1]),
            ]
        )
        yield world


def test_a_drain_ends_after_its_time_and_names_the_tasks_and_the_ways_on(world: ApiWorld) -> None:
    said = io.StringIO()
    invocation = Invocation(Output(out=said, err=said), _client=world.client("root"))
    with pytest.raises(WaitTimeoutError, match=r"after 0\.3 s.*was not removed.*--timeout.*--deadline 0s.*uncordon n1"):
        drain_first(invocation, "n1", None, 0.3)
    assert "n1: waits for 1 task: train/w.0, at most 0.3 s" in said.getvalue()
