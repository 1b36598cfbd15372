"""A namespace with a quota, whose pods have a pull Secret: nothing is placed that does not fit, and what is missing is
said. On a real Kubernetes."""

from __future__ import annotations

import base64
import json
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
from tests.support import kubernetes
from tests.support.engine import IMAGE
from tests.support.local_cluster import LocalCluster
from tests.support.waiting import wait_until

GRASS = Path(sys.executable).parent / "grass"
LOGIN = base64.b64encode(json.dumps({"auths": {"registry.invalid": {"auth": "eDp5"}}}).encode()).decode()


@dataclass
class Namespace:
    cluster: LocalCluster
    server: ApiServer
    name: str

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.name}"

    def grass(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "GRASS_HOME": str(self.cluster.home)}
        return subprocess.run([GRASS, *arguments], env=env, capture_output=True, text=True, timeout=55, check=False)

    def add(self, node: str, *more: str) -> subprocess.CompletedProcess[str]:
        place = ["--kubernetes", self.name, "--kubeconfig", str(kubernetes.KUBECONFIG), "--memory", "2GiB"]
        return self.grass("node", "add", *place, "--name", node, *more)

    def secret(self, name: str, kind: str, data: dict[str, str]) -> None:
        self.server.post(
            f"{self.path}/secrets", {"metadata": {"name": name}, "type": kind, "data": data}, kubernetes.ANY
        )


@pytest.fixture(scope="module")
def namespace() -> Iterator[Namespace]:
    """A namespace whose quota is 0.6 cores, as the node ``pods``."""
    with kubernetes.namespace() as (server, name), LocalCluster().running() as cluster:
        made = Namespace(cluster, server, name)
        hard = {"hard": {"limits.cpu": "600m"}}
        server.post(f"{made.path}/resourcequotas", {"metadata": {"name": "small"}, "spec": hard}, kubernetes.ANY)
        made.secret("team", "kubernetes.io/dockerconfigjson", {".dockerconfigjson": LOGIN})
        made.secret("other", "Opaque", {"x": LOGIN})
        used = {"limits.cpu": "0"}
        quota = f"{made.path}/resourcequotas/small"
        wait_until(lambda: server.get(quota, kubernetes.ANY).get("status", {}).get("used") == used, 30, "a quota")
        done = made.add("pods", "--pull-secret", "team")
        assert done.returncode == 0, done.stderr
        yield made


@pytest.fixture
def client(namespace: Namespace) -> Iterator[Client]:
    with namespace.cluster.client() as client:
        yield client


def job(name: str, command: str, **more: Any) -> dict[str, Any]:
    parts = {"image": IMAGE, "command": command, "resources": {"cpu": 0.15, "memory": "16MiB"}, **more}
    return {"name": name, "components": {"t": {"runtime": "kubernetes", **parts}}}


def held(client: Client) -> list[str]:
    return [each.state for each in client.tasks("held")]


@pytest.mark.nightly
def test_as_many_tasks_are_placed_as_the_quota_lets_run_and_each_pod_has_the_secret(
    namespace: Namespace, client: Client
) -> None:
    """Each takes 0.15 cores and 0.1 for what Grass adds, so that two fit."""
    client.start(job("held", "while [ ! -e /tmp/go ]; do sleep 0.1; done", replicas=4))
    wait_until(lambda: held(client).count("RUNNING") == 2, 45, "two tasks")
    reasons = [each.reason.message for each in client.tasks("held") if each.reason is not None]
    assert not [each for each in reasons if "quota" in each], reasons
    pods = namespace.server.get(f"{namespace.path}/pods", kubernetes.ANY)["items"]
    assert len(pods) == 2 and all(each["spec"]["imagePullSecrets"] == [{"name": "team"}] for each in pods)
    quota = namespace.server.get(f"{namespace.path}/resourcequotas/small", kubernetes.ANY)["status"]["used"]
    assert quota == {"limits.cpu": "500m"}
    client.stop("held")
    assert client.wait("held", 45).state == "STOPPED"


@pytest.mark.nightly
def test_a_secret_that_is_missing_or_of_another_type_is_said(namespace: Namespace) -> None:
    done = namespace.add("bad", "--pull-secret", "none")
    assert done.returncode == Exit.BAD_INPUT and "Secret none in namespace" in done.stderr, done.stderr
    done = namespace.add("bad", "--pull-secret", "other")
    assert done.returncode == Exit.BAD_INPUT and "its type is Opaque" in done.stderr, done.stderr
    done = namespace.add("bad", "--pull-secret", "../pods")
    assert done.returncode == Exit.BAD_INPUT and "is not the name of an object" in done.stderr, done.stderr
    namespace.server.delete(f"{namespace.path}/secrets/team", kubernetes.ANY)
    done = namespace.grass("doctor")
    assert "Secret team in namespace" in done.stdout + done.stderr and "not found" in done.stdout + done.stderr
