"""What needs the processes of two nodes: the same error on both, and a task that goes elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from grass.api.client import Client
from grass.config import Secrets
from grass.model.lifecycle import JobState, TaskState
from grass.store.connect import open_backend
from grass.store.keys import Keys
from grass.store.tickets import Tickets
from grass.wire.tickets import StepSpeeds
from tests.support.local_cluster import LocalCluster
from tests.support.second_node import second_node
from tests.support.waiting import wait_until

pytestmark = pytest.mark.nightly  # tests/unit/test_failure_classes.py and test_checks_before.py show it in a world


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster().running() as made, second_node(made, "second"):
        yield made


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    with cluster.client() as client:
        yield client


@pytest.mark.parametrize("message", ["bad shape", "bad rank $GRASS_INDEX"])
def test_the_same_error_of_a_program_on_two_nodes_ends_a_job_early(client: Client, message: str) -> None:
    fails = f"sleep 1; python3 -c \"raise ValueError('{message}')\""
    part = {"command": fails, "replicas": 2, "spread": "node", "restart": {"policy": "on-failure", "limit": 5}}
    job = client.start({"name": "early", "components": {"w": part}, "gang": True}).id
    ended = client.wait(job, 40.0)
    assert ended.state is JobState.FAILED and ended.reason is not None
    assert "the same error on local and second within a minute" in ended.reason.message, ended.reason.message
    assert {task.node for task in client.tasks(job)} == {"local", "second"} and ended.restarts < 5


def test_a_check_follows_a_failure_of_the_hardware_and_the_task_goes_to_the_other_node(client: Client) -> None:
    fails = "echo 'RuntimeError: CUDA error: uncorrectable ECC error encountered' >&2; exit 1"
    command = f'[ "$GRASS_ATTEMPT" = 1 ] || exit 0; {fails}'
    job = client.start({"name": "blames", "components": {"w": {"command": command}}}).id
    assert client.wait(job, 40.0).state is JobState.SUCCEEDED
    [first] = [each for each in client.attempts(job) if each.attempt == 1]
    [task] = client.tasks(job)
    assert first.node is not None and task.node not in (first.node, None)
    wait_until(lambda: client.node(first.node or "").check, 40, "the check")
    check = client.node(first.node).check
    assert check is not None and (check.user, check.level, check.verdict.state) == ("grass", 1, "good")


def test_a_gang_goes_to_the_faster_node_and_why_says_so_also_after_the_master_agent_was_killed(
    cluster: LocalCluster, client: Client
) -> None:
    backend = open_backend(cluster.config, Secrets.load(cluster.config.home), "agent")
    try:
        Tickets(backend, Keys(cluster.config.key_prefix)).ticket(StepSpeeds({"local": 0.6}))
    finally:
        backend.close()

    def speed() -> float:
        known = client.node("local").speed
        return 1.0 if known is None else known.value

    wait_until(lambda: speed() == 0.6, what="the speed")
    cluster.restart("master-agent")
    part = {"command": "sleep 100", "resources": {"cpu": 0.1}}
    job = client.start({"name": "train", "components": {"w": part}, "gang": True}).id
    wait_until(lambda: client.tasks(job)[0].state is TaskState.RUNNING)
    assert client.tasks(job)[0].node == "second"
    assert client.why(job).placed == {"w": "placed on second: measured faster than local (0.6 x)"}
    client.stop(job, grace=0.0)
