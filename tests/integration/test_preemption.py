"""Preemption and drain on a real local cluster, with the master-agent killed in between."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from grass.api.client import Client
from grass.manifest.local_settings import LocalSettings, OfferedResources
from tests.support.local_cluster import LocalCluster
from tests.support.waiting import wait_until

pytestmark = pytest.mark.needs_redis

SAVES = "trap 'echo saved >> {marks}; sleep 1; exit 0' TERM; echo run >> {marks}; while :; do sleep 0.1; done"
"""A program that saves its state when it is asked to stop, and leaves with 0."""


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(LocalSettings(resources=OfferedResources(cpu=2000))).running() as made:
        yield made


def lines(marks: Path) -> list[str]:
    return marks.read_text().split() if marks.exists() else []


def kill_master_agent(cluster: LocalCluster) -> None:
    pid = cluster.pid("master-agent")
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: cluster.pid("master-agent") not in (None, pid), what="another master-agent")


def start_low(client: Client, marks: Path) -> None:
    task = {
        "command": SAVES.format(marks=marks),
        "replicas": 2,
        "resources": {"cpu": 1},
        "restart": {"policy": "never"},
    }
    client.start({"name": "low", "preemptible": True, "components": {"t": task}})
    wait_until(lambda: lines(marks) == ["run", "run"], what="the start of both tasks")


def states(client: Client, job: str) -> list[str]:
    return [task.state for task in client.tasks(job)]


def test_what_makes_room_is_asked_to_stop_and_runs_again_at_no_cost(cluster: LocalCluster, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    with cluster.client() as client:
        start_low(client, marks)
        high = {"command": "sleep 1", "resources": {"cpu": 2}}
        client.start({"name": "high", "priority": 9, "components": {"t": high}})
        wait_until(lambda: "saved" in lines(marks), what="notice")
        kill_master_agent(cluster)
        assert client.wait("high", timeout=60).state == "SUCCEEDED"
        wait_until(lambda: lines(marks).count("run") == 4, what="another start of both")
        assert lines(marks).count("saved") == 2
        wait_until(lambda: states(client, "low") == ["RUNNING", "RUNNING"], what="RUNNING")
        assert client.job("low").restarts == 0
        assert [task.attempt for task in client.tasks("low")] == [2, 2]
        assert any(event.kind == "job-preempted" for event in client.events())


def test_a_drained_node_is_emptied_at_its_deadline_and_filled_again(cluster: LocalCluster, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    with cluster.client() as client:
        start_low(client, marks)
        client.drain("local", deadline=0.5)
        wait_until(lambda: client.node("local").state == "DRAINED", what="DRAINED")
        assert states(client, "low") == ["PENDING", "PENDING"]
        wait_until(lambda: client.tasks("low")[0].reason.code == "no-nodes", what="why it waits now")
        client.uncordon("local")
        wait_until(lambda: lines(marks).count("run") == 4, what="another start of both")
        assert client.job("low").restarts == 0
