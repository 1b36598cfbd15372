"""Real training in pods of a real 1.20: the first commands of the README, the digits, and torch whose size changes."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from grass.api.client import Client
from grass.document_file import load_document
from grass.kubernetes import names
from tests.integration.test_kubernetes_node import Node
from tests.support import kubernetes, training_image
from tests.support.engine import IMAGE
from tests.support.kubernetes import ANY
from tests.support.local_cluster import LocalCluster
from tests.support.waiting import wait_until

EXAMPLES = Path(__file__).parents[2] / "examples"
SECONDS = 150.0
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(580)]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node whose claim has packages of Python and the examples beside the folders of users."""
    folder = tmp_path_factory.mktemp("volumes") / "team"
    with (
        kubernetes.namespace() as (server, namespace),
        kubernetes.claim(server, namespace, "team", folder),
        LocalCluster().running() as cluster,
    ):
        training_image.provide_image()
        training_image.provide_software(folder / "software")
        shutil.copytree(EXAMPLES, folder / "examples")
        made = Node(cluster, server, namespace)
        place = ["--kubernetes", namespace, "--kubeconfig", str(kubernetes.KUBECONFIG), "--name", "pods"]
        size = ["--cpu", "2", "--memory", "8GiB", "--image", training_image.IMAGE, "--claim", "team"]
        done = made.grass("node", "add", *place, *size)
        assert done.returncode == 0, done.stderr
        yield made


@pytest.fixture
def client(node: Node) -> Iterator[Client]:
    with node.cluster.client() as client:
        yield client


def in_pods(example: str, change: Callable[[str, dict[str, Any]], None]) -> dict[str, Any]:
    """Return the job of an example, with what its components need in pods. ``change``: what else differs in each."""
    job = dict(load_document(EXAMPLES / example / "job.yml"))
    mounts = [{"source": "/software", "target": "/software", "shared": True}]
    for name, part in job["components"].items():
        part |= {"runtime": "kubernetes", "image": training_image.IMAGE}
        part |= {"cwd": f"examples/{example}", "container": {"mounts": mounts}}
        part["env"] = {**part.get("env", {}), "PYTHONPATH": "/software", "PYTHONDONTWRITEBYTECODE": "1"}
        change(name, part)
    return job


def texts(client: Client, name: str, task: str | None = None) -> list[str]:
    return [line.text for line in client.logs(name, task)]


def test_the_first_command_of_the_readme_runs_in_a_pod(node: Node) -> None:
    done = node.grass("run", "--image", IMAGE, "--", "echo", "hello")
    assert done.returncode == 0 and "hello" in done.stdout, (done.stdout, done.stderr)


def test_the_digits_are_learned_by_one_pod_for_each_task(node: Node, client: Client) -> None:
    def change(name: str, part: dict[str, Any]) -> None:
        part["resources"] = {"cpu": 0.25, "memory": "384MiB"}  # two cores have to do for all

    client.start(in_pods("digits", change))
    wait_until(lambda: len(node.pods("digits")) == 5, SECONDS, "a pod for each task")
    view = client.wait("digits", 300)
    said = texts(client, "digits")
    assert view.state == "SUCCEEDED", (said, [each.reason for each in client.tasks("digits")])
    [accuracy] = re.findall(r"test accuracy ([\d.]+) \(wanted", "\n".join(said))
    assert float(accuracy) >= 0.93
    machines = {each.task: each.node for each in client.attempts("digits")}
    assert len(machines) == 5 and set(machines.values()) == {"pods"}


def test_torch_goes_from_two_to_three_to_two_pods_and_one_of_them_is_killed(node: Node, client: Client) -> None:
    def change(name: str, part: dict[str, Any]) -> None:
        part["resources"] = {"cpu": 0.4, "memory": "768MiB"}
        part["command"] = "CHECKPOINT=$GRASS_OUTPUT/checkpoint.pt exec torchrun train.py"
        del part["env"]["CHECKPOINT"]
        part["env"] |= {"STEPS": "2000", "PYTHONUNBUFFERED": "1"}

    client.start(in_pods("elastic", change))

    def begins(size: int, times: int = 1) -> bool:
        return sum(bool(re.match(rf"rank \d of {size} begins", text)) for text in texts(client, "elastic")) >= times

    wait_until(lambda: begins(2, 2), SECONDS, "two workers")
    client.scale("elastic", "worker", 3)
    wait_until(lambda: begins(3, 3), SECONDS, "three workers")
    [killed] = [each for each in node.pods("elastic") if "/worker.1/" in each["metadata"]["annotations"][names.ATTEMPT]]
    path = f"{node.path}/pods/{killed['metadata']['name']}"
    node.server.delete(path, ANY, {"gracePeriodSeconds": 1})
    wait_until(lambda: begins(3, 6), SECONDS, "three workers, one of them in a new pod")
    client.scale("elastic", "worker", 2)
    view = client.wait("elastic", 300)
    said = texts(client, "elastic")
    assert view.state == "SUCCEEDED", (said[-40:], [each.reason for each in client.tasks("elastic")])
    assert sum(text.startswith("rank 0 of 2 begins") for text in said) >= 2
    steps = [int(each) for each in re.findall(r"rank 0 of \d begins at step (\d+)", "\n".join(said))]
    assert steps == sorted(steps) and steps[-1] > 0, "the training went on where it was"
    assert "y = 3.00 x + 1.00 after 2000 steps" in said
    assert [each.attempt for each in client.tasks("elastic")][:2] == [1, 2]
    assert [each.restarts for each in client.tasks("elastic")] == [0] * len(client.tasks("elastic"))
