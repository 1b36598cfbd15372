"""Machines of a real Kubernetes that the agent sees, and gangs that do not start whole. There is neither Kueue nor
Volcano."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from grass.api.client import Client
from grass.cli.exits import Exit
from grass.kubernetes.api import ApiServer
from grass.model.reasons import ReasonCode
from tests.support import kubernetes
from tests.support.engine import IMAGE
from tests.support.kubernetes import ANY
from tests.support.local_cluster import LocalCluster
from tests.support.waiting import wait_until

GRASS = Path(sys.executable).parent / "grass"


@dataclass
class Node:
    """The node ``pods`` of a cluster, whose size is that of all machines."""

    cluster: LocalCluster
    server: ApiServer
    namespace: str

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}"

    def grass(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "GRASS_HOME": str(self.cluster.home)}
        return subprocess.run([GRASS, *arguments], env=env, capture_output=True, text=True, timeout=55, check=False)

    def add(self, *more: str) -> subprocess.CompletedProcess[str]:
        place = ["--kubernetes", self.namespace, "--kubeconfig", str(kubernetes.KUBECONFIG)]
        return self.grass("node", "add", *place, *more)


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with kubernetes.namespace() as (server, namespace), LocalCluster().running() as cluster:
        made = Node(cluster, server, namespace)
        done = made.add("--name", "pods")
        assert done.returncode == 0, done.stderr
        yield made


@pytest.fixture
def client(node: Node) -> Iterator[Client]:
    with node.cluster.client() as client:
        yield client


def job(name: str, command: str, **more: Any) -> dict[str, Any]:
    parts = {"image": IMAGE, "command": command, "resources": {"cpu": 0.01, "memory": "16MiB"}, **more}
    return {"name": name, "components": {"t": {"runtime": "kubernetes", **parts}}}


@pytest.mark.nightly
def test_the_machines_and_what_runs_on_them_are_shown_and_are_the_size_of_the_node(node: Node, client: Client) -> None:
    allocatable = node.server.get("/api/v1/nodes/real1", ANY)["status"]["allocatable"]
    client.start(job("held", "exec sleep 100", where={"kubernetes.io/hostname": ["real1"], "os": ["linux"]}))
    wait_until(lambda: client.tasks("held")[0].state == "RUNNING", 45, "its task")

    def seen() -> bool:
        machines = client.node("pods").machines
        return machines is not None and any(each.running for each in machines.machines)

    wait_until(seen, 30, "what runs there")
    view = client.node("pods")
    assert view.machines is not None and view.resources is not None
    real = next(each for each in view.machines.machines if each.name == "real1")
    [key] = real.tasks
    assert key.endswith("/t.0/1") and real.cpu == int(allocatable["cpu"]) * 1000 and not real.closed
    open_machines = [each for each in view.machines.machines if not each.closed]
    assert view.resources.cpu == sum(each.cpu for each in open_machines)
    assert client.tasks("held")[0].software["machine"] == "real1"  # type: ignore[index]
    assert "Machine real1" in node.grass("node", "show", "pods").stdout
    [pod] = node.server.get(f"{node.path}/pods", ANY)["items"]
    [term] = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert {each["key"] for each in term["matchExpressions"]} == {"kubernetes.io/hostname", "kubernetes.io/os"}
    client.stop("held")
    client.start(job("nowhere", "true", where={"disk": ["ssd"]}))
    assert client.job("nowhere").state == "QUEUED"
    client.stop("nowhere")


@pytest.mark.nightly
@pytest.mark.timeout(180)
def test_a_gang_that_cannot_start_whole_is_released_and_started_again(node: Node, client: Client) -> None:
    """One of its pods finds no machine, and is deleted here, as the agent does after minutes."""
    done = node.add("--name", "big", "--cpu", "1000", "--memory", "100GiB", "--labels", "size=big")
    assert done.returncode == 0, done.stderr
    small = job("pair", "exec sleep 100", where={"size": "big"})["components"]["t"]
    large = {**small, "resources": {"cpu": 900, "memory": "16MiB"}}
    client.start({"name": "pair", "gang": True, "components": {"small": small, "large": large}})

    def found(task: str) -> Any:
        return next(each for each in client.tasks("pair") if each.task == task)

    def code(task: str) -> ReasonCode | None:
        reason = found(task).reason
        return None if reason is None else reason.code

    wait_until(
        lambda: "addresses of large.0" in str(found("small.0").reason), 45, "the small task, which is in its pod"
    )
    wait_until(lambda: code("large.0") is ReasonCode.UNSCHEDULABLE, 30, "the large task, which waits")
    pods = node.server.get(f"{node.path}/pods", ANY)["items"]
    [waiting] = [each for each in pods if "/large.0/1" in each["metadata"]["annotations"]["grass-cluster.org/attempt"]]
    node.server.delete(f"{node.path}/pods/{waiting['metadata']['name']}", ANY)
    wait_until(lambda: {found("small.0").attempt, found("large.0").attempt} == {2}, 50, "a new start")
    assert [each.restarts for each in client.tasks("pair")] == [0, 0]
    first = next(each for each in client.attempts("pair") if (each.task, each.attempt) == ("small.0", 1))
    assert first.reason is not None and first.reason.code is ReasonCode.GANG_INCOMPLETE
    client.stop("pair")
    assert client.wait("pair", 45).state == "STOPPED"


@pytest.mark.nightly
def test_without_kueue_and_volcano_a_queue_is_refused(node: Node) -> None:
    done = node.add("--name", "bad", "--queue", "kueue/team", "--cpu", "1", "--memory", "1GiB")
    assert done.returncode == Exit.BAD_INPUT and "does not have kueue" in done.stderr, done.stderr
    done = node.add("--name", "bad", "--queue", "Team/x", "--cpu", "1", "--memory", "1GiB")
    assert done.returncode == Exit.BAD_INPUT and "unknown kind" in done.stderr, done.stderr
