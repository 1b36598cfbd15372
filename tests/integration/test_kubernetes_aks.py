"""A cluster of `mode: k8s/aks` on the double of Azure, whose Kubernetes is a real one: from `grass create` to `delete`.

The command line is the real one, with the real azure-identity; what it finds as `az` is a script. Debian's
`docker-registry` stands for Azure's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from grass.kubernetes.api import ApiServer, RefusedError
from grass.kubernetes.names import JOB
from grass.provision.aks.machines import GOING, POOL
from tests.doubles.azure_aks import CLUSTER, Aks
from tests.support import kubernetes
from tests.support.aks_world import SKUS
from tests.support.azure_server import serve
from tests.support.engine import IMAGE
from tests.support.registry import PASSWORD, USER, registry
from tests.support.waiting import wait_until

GRASS = Path(sys.executable).parent / "grass"
AZ = """#!/bin/sh
date -d '+1 hour' '+{"accessToken":"good","expiresOn":"%Y-%m-%d %H:%M:%S.000000","expires_on":%s,"tenant":"t"}'
"""
PLUGIN = "/apis/apps/v1/namespaces/kube-system/daemonsets/grass-gpus"


@dataclass
class CommandLine:
    env: dict[str, str]

    @contextmanager
    def cleared(self) -> Iterator[None]:
        """End what a test that failed left of the cluster on this machine."""
        try:
            yield
        finally:
            subprocess.run([GRASS, "delete", "sky"], env=self.env, capture_output=True, timeout=120, check=False)

    def __call__(self, *words: str, code: int = 0) -> str:
        done = subprocess.run([GRASS, *words], env=self.env, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr


def words(text: str) -> str:
    return " ".join(text.split())


def closed(server: ApiServer, machine: str) -> bool:
    return bool(server.get(f"/api/v1/nodes/{machine}", kubernetes.ANY)["spec"].get("unschedulable"))


@contextmanager
def machine_of(server: ApiServer, pool: str, namespace: str) -> Iterator[tuple[str, str]]:
    """A machine of a pool, on which nothing runs but what looks like the pod of a task. Yield its name, and the pod's
    path."""
    name, pods = f"aks-{pool}-{namespace}", f"/api/v1/namespaces/{namespace}/pods"
    server.post("/api/v1/nodes", {"metadata": {"name": name, "labels": {POOL: pool}}}, kubernetes.ANY)
    spec = {"nodeName": name, "containers": [{"name": "t", "image": IMAGE}]}
    body = {"metadata": {"name": "task", "labels": {JOB: "other"}}, "spec": spec}
    try:
        server.post(pods, body, kubernetes.ANY)
        yield name, f"{pods}/task"
    finally:
        for path, options in ((f"{pods}/task", {"gracePeriodSeconds": 0}), (f"/api/v1/nodes/{name}", {})):
            with suppress(RefusedError):
                server.delete(path, kubernetes.ANY, options)


@contextmanager
def volume(server: ApiServer, namespace: str, folder: Path) -> Iterator[None]:
    """A volume that the claim of Grass gets, as Azure's storage class would make it."""
    folder.mkdir()
    folder.chmod(0o777)
    name = f"{namespace}-files"
    spec = {
        "accessModes": ["ReadWriteMany"],
        "capacity": {"storage": "10Gi"},
        "storageClassName": "azurefile-csi",
        "hostPath": {"path": str(folder)},
        "persistentVolumeReclaimPolicy": "Retain",
        "claimRef": {"namespace": namespace, "name": "grass-share"},
    }
    server.post("/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": spec}, kubernetes.ANY)
    try:
        yield
    finally:
        for each in (f"/api/v1/persistentvolumes/{name}", PLUGIN):
            with suppress(RefusedError):
                server.patch(each, {"metadata": {"finalizers": None}}, kubernetes.ANY)
                server.delete(each, kubernetes.ANY)


def push(image: str) -> None:
    """Let the image of the tests be at the registry alone, so that it has to be pulled."""
    docker = ["docker", "-H", f"unix://{kubernetes.STATE / 'docker.sock'}"]
    host = image.partition("/")[0]
    subprocess.run([*docker, "tag", IMAGE, image], check=True, capture_output=True)
    login = [*docker, "login", "-u", USER, "--password-stdin", host]
    subprocess.run(login, input=PASSWORD, text=True, check=True, capture_output=True)
    subprocess.run([*docker, "push", "-q", image], check=True, capture_output=True)
    subprocess.run([*docker, "logout", host], check=True, capture_output=True)
    subprocess.run([*docker, "rmi", "--no-prune", image], check=True, capture_output=True)


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_a_kubernetes_on_azure_runs_a_job_is_scaled_stopped_started_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "az").write_text(AZ)
    (programs / "az").chmod(0o755)
    with (
        kubernetes.namespace() as (server, name),
        volume(server, name, tmp_path / "share"),
        registry(tmp_path) as host,
        serve(tmp_path) as served,
    ):
        azure = served.azure
        aks = Aks(azure, kubernetes.KUBECONFIG.read_text(), host, (USER, PASSWORD), may_assign=False)
        azure.skus += SKUS
        azure.limits |= {"cores": 20, "standardDSv5Family": 20}
        grass = CommandLine(
            {
                **os.environ,
                "GRASS_HOME": str(tmp_path / "home"),
                "PATH": f"{programs}:{os.environ['PATH']}",
                "REQUESTS_CA_BUNDLE": str(served.authority),
                "AZURE_TOKEN_CREDENTIALS": "AzureCliCredential",
            }
        )
        file = {
            "mode": "k8s/aks",
            "name": "sky",
            "cloud": {"location": "westeurope", "endpoint": azure.endpoint},
            "kubernetes": {"from": ["203.0.113.0/24"]},
            "share": "10GiB",
            "namespace": {"namespace": name, "name": "pods", "image": IMAGE},
        }
        (tmp_path / "sky.yml").write_text(yaml.safe_dump(file))
        with grass.cleared():
            assert "pool system: 1 × Standard_D4s_v5" in grass("create", str(tmp_path / "sky.yml"), "--plan")
            said = grass("create", str(tmp_path / "sky.yml"))
            assert "images are pulled with a Secret" in said and "cluster sky is ready" in said
            assert [node["name"] for node in json.loads(grass("node", "list", "-o", "json"))] == ["pods"]
            push(f"{host}/trainer:1")
            job = {
                "name": "first",
                "components": {
                    "t": {
                        "runtime": "kubernetes",
                        "image": f"{host}/trainer:1",
                        "command": "echo from the sky; echo kept > $GRASS_OUTPUT/kept.txt",
                        "resources": {"cpu": 0.1, "memory": "16MiB"},
                    }
                },
            }
            (tmp_path / "job.yml").write_text(yaml.safe_dump(job))
            grass("job", "start", str(tmp_path / "job.yml"))
            grass("job", "wait", "first", "--timeout", "100s")
            assert "from the sky" in grass("job", "logs", "first")
            assert [each.read_text() for each in (tmp_path / "share" / "jobs").glob("*/kept.txt")] == ["kept\n"]
            assert "pool d8sv5 has 1 machine of Standard_D8s_v5" in grass("node", "scale", "Standard_D8s_v5", "1")
            assert aks.counts() == {"system": 1, "d8sv5": 1}
            assert "pool d8sv5 running 1 × Standard_D8s_v5" in words(grass("cost"))
            with machine_of(server, "d8sv5", name) as (one, pod):
                late = grass("node", "scale", "Standard_D8s_v5", "0", "--timeout", "1s", code=124)
                assert f"tasks on {one} (1) have not ended" in words(late) and not closed(server, one)
                going = {"metadata": {"annotations": {GOING: "yes"}}, "spec": {"unschedulable": True}}
                server.patch(f"/api/v1/nodes/{one}", going, kubernetes.ANY)  # as a killed command leaves it
                grass("node", "scale", "Standard_D8s_v5", "1")
                assert not closed(server, one)
                server.delete(pod, kubernetes.ANY, {"gracePeriodSeconds": 0})
                assert "pool d8sv5 is empty" in grass("node", "scale", "Standard_D8s_v5", "0")
                assert closed(server, one) and aks.given_up == [one] and aks.counts()["d8sv5"] == 0
            said = grass("stop", "sky")
            assert "Kubernetes sky-aks: is stopped" in said and aks.cluster().power == "Stopped"
            assert "pool system stopped" in words(grass("cost"))
            grass("node", "scale", "Standard_D8s_v5", "0", code=2)
            grass("start", "sky")
            wait_until(
                lambda: [node["state"] for node in json.loads(grass("node", "list", "-o", "json"))] == ["READY"],
                60,
                "the node",
            )
            grass("job", "start", str(tmp_path / "job.yml"), "--name", "second")
            grass("job", "wait", "second", "--timeout", "100s")
            grass("delete", "sky")
            assert azure.of(CLUSTER) == [] and azure.empty() and not (tmp_path / "home" / "clusters" / "sky").exists()
