"""Unmodified torch under torchrun on three nodes, as processes and as containers: 2 → 3 → 2 workers while it trains."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grass.api.client import Client
from tests.support.frameworks import torch_folder
from tests.support.lab import SessionLab
from tests.support.on_premises import Cluster
from tests.support.three_nodes import NODES, lines, three_nodes
from tests.support.waiting import wait_until

TRAIN = Path(__file__).parents[1] / "support" / "elastic_train.py"
SWITCHES = {"n1": "switch2", "n2": "switch1", "n3": "switch2"}
TORCH = "/opt/torch"
SECONDS = 240.0
"""The first import of torch on a host takes long."""

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def cluster(running_lab: SessionLab, site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    packages = torch_folder() / "lib" / "python3.11" / "site-packages"  # a copy of 1 GB for each node takes long

    def prepare() -> None:
        for node in NODES:
            running_lab.show_folder(node, packages, TORCH)

    folder = tmp_path_factory.mktemp("torch")
    with three_nodes(running_lab, site, folder, "trains", prepare, switches=SWITCHES, mounts=[TORCH]) as made:
        for node in NODES:
            running_lab.load_image(node, running_lab.task_image_tar)
        sent = made.grass("data", "push", str(TRAIN), f"elastic/{TRAIN.name}")
        assert sent.returncode == 0, sent.stderr
        yield made


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    with Client(cluster.name, home=cluster.home) as client:
        yield client


def training(name: str, **more: Any) -> dict[str, Any]:
    run = f'"$GRASS_DATA/elastic/{TRAIN.name}" "$GRASS_OUTPUT/checkpoint" "$GRASS_OUTPUT/stop"'
    worker = {
        "command": f"exec python3 -m torch.distributed.run --monitor-interval 0.1 {run}",
        "framework": "torchrun",
        "replicas": 2,
        "min": 1,
        "max": 3,
        "spread": "node",
        "restart": {"policy": "on-failure", "limit": 3, "backoff": "0s"},
        "resources": {"cpu": 0.5, "memory": "600MiB"},
        "env": {"PYTHONPATH": TORCH, "OMP_NUM_THREADS": "1", "CHECKPOINT_EVERY": "5"},
        **more,
    }
    return {"name": name, "components": {"worker": worker}}


@pytest.mark.parametrize(
    "how",
    [
        pytest.param({}, id="process"),
        pytest.param(
            {"image": "lab-python", "runtime": "docker", "container": {"mounts": [f"{TORCH}:{TORCH}:ro"]}},
            id="container",
        ),
    ],
)
def test_training_follows_each_change_of_its_size_and_survives_kills(
    cluster: Cluster, client: Client, how: dict[str, Any]
) -> None:
    name = "container" if "image" in how else "process"
    client.start(training(name, **how))
    wait_for(client, name, 2)
    # the master-agent dies while the new worker is on its way
    grown = client.scale(name, "worker", 3)
    cluster.lab.hosts["master"].run("systemctl", "kill", "-s", "KILL", f"grass-master-agent@{cluster.name}.service")
    assert client.wait_for_operation(grown.job_id, grown.id, SECONDS).outcome == "DONE"
    wait_for(client, name, 3)
    wait_until(lambda: len(begun(lines(client, name))) == 5, 60, "the first line of each process", 0.5)
    assert_continued(lines(client, name))
    # a task is killed; its next attempt joins the others
    victim = next(task for task in client.tasks(name) if task.task == "worker.1")
    cluster.lab.hosts[victim.node].run("kill", "-KILL", str(victim.pid))
    wait_until(lambda: attempt(client, name, "worker.1") == 2, 60, "the next attempt of worker.1", 0.2)
    wait_for(client, name, 3, ("worker.1", 2))
    # the worker that is released ends by itself, and the two others go on
    before = sum("size=2" in line for line in lines(client, name)["worker.0", 1])
    shrunk = client.scale(name, "worker", remove=["worker.2"])
    assert client.wait_for_operation(shrunk.job_id, shrunk.id, SECONDS).outcome == "DONE"
    wait_until(lambda: sum("size=2" in line for line in lines(client, name)["worker.0", 1]) > before, SECONDS)
    for task in ("worker.0", "worker.1"):
        list(client.execute(name, task, ["sh", "-c", 'touch "$GRASS_OUTPUT/stop"']).output())
    assert client.wait(name, timeout=SECONDS).state == "SUCCEEDED", lines(client, name)
    assert [task.exit_code for task in client.tasks(name) if task.task != "worker.2"] == [0, 0]


def wait_for(client: Client, job: str, size: int, who: tuple[str, int] = ("worker.0", 1)) -> None:
    """Wait until the attempt trains with so many others, in the order of their switches, then of their indexes."""

    def trains() -> bool:
        node = {task.task[7:]: str(task.node) for task in client.tasks(job) if task.state == "RUNNING"}
        order = "-".join(sorted(node, key=lambda index: (SWITCHES[node[index]], int(index))))
        return len(node) == size and f"goes on size={size} order={order}" in lines(client, job).get(who, ())

    try:
        wait_until(trains, SECONDS, f"{who} training with {size}", 0.5)
    except AssertionError as error:
        raise AssertionError(f"{error}: {client.tasks(job)} printed {lines(client, job)}") from error


def attempt(client: Client, job: str, task: str) -> int:
    return next(int(each.attempt) for each in client.tasks(job) if each.task == task)


def begun(printed: dict[tuple[str, int], list[str]]) -> list[str]:
    """Return the first line of each training process. Lines of different nodes arrive at different times."""
    return [line for said in printed.values() for line in said if line.startswith("begin ")]


def assert_continued(printed: dict[tuple[str, int], list[str]]) -> None:
    """The new worker cost no restart, and the training began from zero once."""
    assert all("restarts=0" in line for line in begun(printed)), printed
    first, *later = [int(re.findall(r"step=(\d+)", line)[0]) for line in printed["worker.0", 1] if "begin" in line]
    assert first == 0 and later and min(later) > 0
