"""Elastic jobs on a real cluster: real processes come and go, and operations survive a kill of the master-agent."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from grass import Client
from grass.errors import ConflictError, InputError, NotFoundError
from tests.support.local_cluster import LocalCluster
from tests.support.waiting import wait_until

SECONDS = 30.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    cluster = LocalCluster()
    try:
        cluster.create()
        yield cluster
    finally:
        cluster.end()


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    with cluster.client() as client:
        yield client


def start(client: Client, name: str, **more: object) -> str:
    worker = {"command": "exec sleep 1000", "replicas": 2, "min": 1, "max": 4, "resources": {"cpu": 0.01}, **more}
    job_id: str = client.start({"name": name, "components": {"worker": worker}})["id"]
    wait_until(lambda: running(client, name) == ["worker.0", "worker.1"], SECONDS)
    return job_id


def running(client: Client, name: str) -> list[str]:
    return [task["task"] for task in client.tasks(name) if task["state"] == "RUNNING"]


def done(client: Client, operation: dict[str, object]) -> str:
    ended = client.wait_for_operation(str(operation["job_id"]), str(operation["id"]), SECONDS)
    return str(ended["outcome"])


def test_a_job_grows_and_shrinks_while_its_processes_run_on(client: Client) -> None:
    start(client, "grow")
    pids = {task["task"]: task["pid"] for task in client.tasks("grow")}
    assert done(client, client.scale("grow", "worker", 4, reason="two more machines")) == "DONE"
    assert running(client, "grow") == [f"worker.{index}" for index in range(4)]
    assert done(client, client.scale("grow", "worker", remove=["worker.1"])) == "DONE"
    assert done(client, client.scale("grow", "worker", delta=-1)) == "DONE"
    assert running(client, "grow") == ["worker.0", "worker.2"]
    kept = {task["task"]: task["pid"] for task in client.tasks("grow")}
    assert kept["worker.0"] == pids["worker.0"]
    shown = [(each["from_size"], each["to_size"], each["author"]) for each in client.operations("grow")]
    assert shown == [(2, 4, client.status()["user"]), (4, 3, client.status()["user"]), (3, 2, client.status()["user"])]
    client.stop("grow")
    assert client.wait("grow", SECONDS)["state"] == "STOPPED"


def test_requests_that_cannot_be_are_refused_and_change_nothing(client: Client) -> None:
    start(client, "bad")
    for arguments, error, text in (
        ({"size": 9}, InputError, "must be at most `max`, which is 4; got 9"),
        ({"size": -1}, InputError, "must be at least 1, got -1"),
        ({"remove": ["worker.0", "worker.1"]}, InputError, "must be at least 1, got 0"),
        ({"remove": ["worker.7"]}, NotFoundError, "no task worker.7"),
        ({"remove": ["x"]}, InputError, "write COMPONENT.INDEX"),
        ({}, InputError, "give a size"),
    ):
        with pytest.raises(error, match=text):
            client.scale("bad", "worker", **arguments)  # type: ignore[arg-type]
    with pytest.raises(NotFoundError, match="no component nobody; it has worker"):
        client.scale("bad", "nobody", 3)
    with pytest.raises(ConflictError, match="not SUSPENDED"):
        client.resume("bad")
    with pytest.raises(NotFoundError, match="no operation nothing"):
        client.cancel_operation("bad", "nothing")
    assert client.operations("bad") == []
    client.stop("bad")
    client.wait("bad", SECONDS)
    with pytest.raises(ConflictError, match="already STOPPED"):
        client.scale("bad", "worker", 3)


def test_a_suspended_job_has_no_processes_and_runs_again_when_it_is_resumed(client: Client) -> None:
    start(client, "pause")
    assert done(client, client.suspend("pause")) == "DONE"
    view = client.job("pause")
    assert (view["state"], running(client, "pause")) == ("SUSPENDED", [])
    assert done(client, client.resume("pause")) == "DONE"
    wait_until(lambda: running(client, "pause") == ["worker.0", "worker.1"], SECONDS)
    assert done(client, client.restart("pause")) == "DONE"
    wait_until(lambda: [task["attempt"] for task in client.tasks("pause")] == [3, 3], SECONDS)
    client.stop("pause")
    client.wait("pause", SECONDS)


def test_an_operation_survives_a_kill_of_the_master_agent(client: Client, cluster: LocalCluster) -> None:
    start(client, "kill", grace="30s", command="trap : TERM; while :; do sleep 0.1; done")
    operation = client.scale("kill", "worker", 1, deadline=3.0)
    assert operation["state"] == "DRAINING"
    pid = cluster.pid("master-agent")
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: cluster.pid("master-agent") not in (None, pid), SECONDS)
    wait_until(lambda: client.operations("kill")[0]["state"] == "STOPPING", SECONDS)
    client.stop("kill", grace=0.0)
    assert client.wait("kill", SECONDS)["state"] == "STOPPED"
    assert client.operations("kill")[0]["state"] == "ENDED"


def test_members_read_a_new_membership_from_their_file_while_they_run(client: Client) -> None:
    counts = 'grep -o "\\"task\\"" "$GRASS_MEMBERSHIP" | wc -l'
    command = f'echo here; until [ "$({counts})" = 3 ]; do sleep 0.05; done; echo saw three'
    start(client, "see", command=command, max=3, framework="none")
    assert done(client, client.scale("see", "worker", 3)) == "DONE"
    assert client.wait("see", SECONDS)["state"] == "SUCCEEDED"
    said = [line["task"] for line in client.logs("see") if line["text"].strip() == "saw three"]
    assert sorted(said) == ["worker.0", "worker.1", "worker.2"]
