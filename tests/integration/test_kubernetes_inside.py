"""A cluster whose master is a pod of a real namespace: made, used, robbed of its pod, changed, deleted."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from grass.api.client import Client
from grass.kubernetes.api import ApiServer, RefusedError
from tests.support import kubernetes
from tests.support.engine import IMAGE
from tests.support.master_image import provide_images
from tests.support.relay import Relay
from tests.support.waiting import wait_until

GRASS = Path(sys.executable).parent / "grass"
SERVICE = "10.0.0.1"
"""The address of the API server as pods know it. No kube-proxy serves it here, so the tests do."""
TICKS = 40
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]


@dataclass
class Inside:
    home: Path
    server: ApiServer
    namespace: str
    folder: Path
    images: tuple[str, str]

    def grass(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "GRASS_HOME": str(self.home)}
        return subprocess.run([GRASS, *arguments], env=env, capture_output=True, text=True, timeout=300, check=False)

    def create(self, image: str) -> subprocess.CompletedProcess[str]:
        file = self.home.parent / "lab.yml"
        node = {"namespace": self.namespace, "name": "pods", "kubeconfig": str(kubernetes.KUBECONFIG), "image": IMAGE}
        node["resources"] = {"cpu": 2, "memory": "2GiB"}
        inside = {"image": image, "size": "1GiB", "resources": {"cpu": 1, "memory": "1GiB"}}
        wire = {"mode": "k8s", "name": "lab", "master": "inside", "inside": inside, "namespaces": [node]}
        file.write_text(yaml.safe_dump(wire))
        return self.grass("create", str(file))

    def master(self) -> Any:
        try:
            return self.server.get(f"/api/v1/namespaces/{self.namespace}/pods/grass-lab-0", kubernetes.ANY)
        except RefusedError:
            return None

    def made(self) -> list[str]:
        """Return what of Grass is in the namespace."""
        kinds = "pods,statefulsets,services,secrets,roles,rolebindings,serviceaccounts,ingresses,leases,pvc"
        every = kubernetes.kubectl("get", kinds, "-n", self.namespace, "-o", "name").split()
        return [each for each in every if "grass" in each or "/g-" in each]


@pytest.fixture(scope="module")
def api_service() -> Iterator[None]:
    """Let pods reach the API server at its Service address."""
    kubernetes.require_kubernetes()
    subprocess.run(["ip", "address", "add", f"{SERVICE}/32", "dev", "lo"], check=False, capture_output=True)
    try:
        with Relay(SERVICE, ("127.0.0.1", 16443), port=443):
            yield
    finally:
        subprocess.run(["ip", "address", "del", f"{SERVICE}/32", "dev", "lo"], check=False, capture_output=True)


@contextmanager
def cluster_inside(folder: Path) -> Iterator[Inside]:
    """A cluster in a namespace of its own. `folder`: its volume, and the user's home."""
    images = provide_images()
    with (
        kubernetes.namespace() as (server, namespace),
        kubernetes.volume(server, namespace, "data-grass-lab-0", folder / "volume"),
    ):
        (folder / "home").mkdir()
        made = Inside(folder / "home", server, namespace, folder / "volume", images)
        done = made.create(images[0])
        assert done.returncode == 0, done.stderr
        yield made
        made.grass("delete", "lab", "--volume", "--force")


@pytest.fixture(scope="module")
def inside(api_service: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    with cluster_inside(tmp_path_factory.mktemp("inside")) as made:
        yield made


@pytest.fixture
def client(inside: Inside) -> Iterator[Client]:
    with Client("lab", home=inside.home, timeout=120.0) as client:
        yield client


def job(name: str, seconds: int) -> dict[str, Any]:
    command = f"i=0; while [ $i -lt {seconds} ]; do echo tick $i; i=$((i+1)); sleep 1; done"
    part = {"image": IMAGE, "runtime": "kubernetes", "command": command, "replicas": 2}
    return {"name": name, "components": {"t": {**part, "resources": {"cpu": 0.05, "memory": "32MiB"}}}}


def test_a_job_outlives_the_pod_of_its_master_and_ends_once_with_all_its_lines(inside: Inside, client: Client) -> None:
    client.start(job("count", TICKS))
    wait_until(lambda: len([each for each in client.logs("count") if "tick 2" in each.text]) >= 2, 60, "the job runs")
    before = inside.master()["metadata"]["uid"]
    kubernetes.kubectl("delete", "pod", "grass-lab-0", "-n", inside.namespace, "--force", "--grace-period=0")
    wait_until(lambda: (inside.master() or {"metadata": {"uid": before}})["metadata"]["uid"] != before, 60, "a new pod")
    assert client.wait("count", 200).state == "SUCCEEDED"
    tasks = client.tasks("count")
    assert [(each.state, each.attempt) for each in tasks] == [("SUCCEEDED", 1)] * 2, tasks
    ticks = sorted((each.task, int(each.text.split()[1])) for each in client.logs("count"))
    assert ticks == [(task, number) for task in ("t.0", "t.1") for number in range(TICKS)]


def test_another_person_logs_in_with_a_kubeconfig_that_may_only_forward_ports(
    inside: Inside, client: Client, tmp_path: Path
) -> None:
    invited = inside.grass("user", "add", "ann")
    assert "pods/portforward of grass-lab-0 in namespace " in invited.stderr, invited.stderr
    account = kubernetes.account(inside.server, inside.namespace, "ann", tmp_path)
    role, binding = "role ann --verb=create,get --resource=pods/portforward", "rolebinding ann --role=ann"
    kubernetes.kubectl("create", *role.split(), "-n", inside.namespace)
    kubernetes.kubectl("create", *binding.split(), f"--serviceaccount={inside.namespace}:ann", "-n", inside.namespace)
    there = replace(inside, home=tmp_path)
    words = ("login", invited.stdout.strip(), "--kubeconfig", str(account))
    done = there.grass(*words)
    assert done.returncode == 0, done.stderr
    assert there.grass("job", "list", "--all").returncode == 0
    assert there.grass("user", "list").returncode == 4


def test_another_image_replaces_the_pod_and_keeps_jobs_and_what_runs(inside: Inside, client: Client) -> None:
    client.start(job("through", 90))
    wait_until(lambda: client.job("through").state == "RUNNING", 60, "the job runs")
    wait_until(lambda: [each for each in client.logs("through") if "tick 1" in each.text], 60, "its lines")
    done = inside.create(inside.images[1])
    assert done.returncode == 0, done.stderr
    assert inside.master()["spec"]["containers"][0]["image"] == inside.images[1]
    assert client.wait("through", 250).state == "SUCCEEDED"
    assert [each.attempt for each in client.tasks("through")] == [1, 1]
    status = inside.grass("status")
    assert "node-agent@pods" in status.stdout and status.returncode == 0, status.stderr


def test_what_cannot_start_is_said_and_mended_by_the_same_command(inside: Inside) -> None:
    done = inside.create("grass-test-master:none")
    assert done.returncode == 2 and "its image cannot be had (`inside.image`)" in done.stderr, done.stderr
    done = inside.create(inside.images[1])
    assert done.returncode == 0, done.stderr


def test_delete_leaves_nothing_but_the_volume_and_then_not_even_that(api_service: None, tmp_path: Path) -> None:
    with cluster_inside(tmp_path) as inside:
        delete(inside)


def delete(inside: Inside) -> None:
    with Client("lab", home=inside.home, timeout=120.0) as client:
        client.start(job("cut", 300))
        wait_until(lambda: client.job("cut").state == "RUNNING", 60, "the job runs")
    done = inside.grass("delete", "lab")
    assert done.returncode == 0 and "claim data-grass-lab-0" in done.stderr, done.stderr
    wait_until(lambda: inside.made() == ["persistentvolumeclaim/data-grass-lab-0"], 60, "an empty namespace")
    assert not (inside.home / "clusters" / "lab").exists()
    done = inside.create(inside.images[0])
    assert done.returncode == 0, done.stderr
    with Client("lab", home=inside.home) as again:
        assert "cut" in {each.name for each in again.jobs(all=True)}
    done = inside.grass("delete", "lab", "--volume")
    assert done.returncode == 0, done.stderr
    wait_until(lambda: inside.made() == [], 60, "an empty namespace")
