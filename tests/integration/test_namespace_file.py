"""`grass create FILE` with namespaces as nodes: on a double of the API server, and on a real Kubernetes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grass.api.client import Client
from grass.cli.exits import Exit
from grass.manifest.local_settings import KubernetesSettings
from grass.manifest.namespaces import NamespaceSettings
from grass.model.daemons import MASTER_DAEMONS, REDIS, SUPERVISOR
from grass.model.lifecycle import NodeState
from grass.provision import file_namespaces, local, local_namespaces, stopping
from grass.provision.local import LocalProvisioner
from grass.provision.provisioner import Created, RunsAlreadyError, Session
from grass.supervision import processes
from tests.doubles.kubernetes_api import KubernetesApi, kubernetes_api
from tests.integration.test_namespace_interrupted import interrupted
from tests.support import kubernetes
from tests.support.engine import IMAGE
from tests.support.local_cluster import LocalCluster
from tests.support.waiting import wait_until

GRASS = Path(sys.executable).parent / "grass"
MASTER = {SUPERVISOR, REDIS, *MASTER_DAEMONS}


def of_node(name: str) -> set[str]:
    return {f"node-agent@{name}", f"node-api-server@{name}"}


class Site:
    """A cluster whose nodes are in the one namespace of a double. ``said``: to the user."""

    def __init__(self, server: KubernetesApi, cluster: LocalCluster) -> None:
        self.server, self.cluster = server, cluster
        self.said: list[str] = []
        self.provisioner = LocalProvisioner(Session("uni", cluster.home, self.said.append))
        self._kubeconfig = cluster.home / "config"
        self._kubeconfig.write_text(
            "apiVersion: v1\nkind: Config\ncurrent-context: now\n"
            "contexts: [{name: now, context: {cluster: c, user: u}}]\n"
            f"clusters: [{{name: c, cluster: {{server: '{server.url}'}}}}]\nusers: [{{name: u, user: {{token: t}}}}]\n"
        )

    def wanted(self, name: str) -> NamespaceSettings:
        path = f"namespaces[{name}]"
        return NamespaceSettings("lab", name, path, kubeconfig=str(self._kubeconfig), cpu=4000, memory=8 << 30)

    def create(self, *wanted: NamespaceSettings) -> Created:
        self.said.clear()
        return self.provisioner.create(replace(self.cluster.settings, namespaces=wanted))

    def counts(self, *wanted: NamespaceSettings) -> tuple[int, int]:
        made = self.create(*wanted)
        return made.done, made.unchanged

    def ready(self) -> list[str]:
        with self.cluster.client() as client:
            return sorted(node.name for node in client.nodes() if node.state is NodeState.READY)


@pytest.fixture
def site() -> Iterator[Site]:
    with kubernetes_api() as server:
        cluster = LocalCluster(KubernetesSettings(name="uni"))
        try:
            yield Site(server, cluster)
        finally:
            cluster.end()


@pytest.mark.nightly  # 30 s on an idle machine
def test_a_cluster_of_namespaces_is_created_grows_starts_again_and_goes_without_a_trace(site: Site) -> None:
    one, two = site.wanted("one"), site.wanted("two")
    made = site.create(one)
    assert (made.mode, made.done, made.unchanged) == ("grass/k8s", 1, 0)
    assert site.ready() == ["one"]
    assert {name for name, state in site.cluster.states().items() if state == "RUNNING"} == MASTER | of_node("one")
    with site.cluster.client() as client:
        assert not client.on_this_machine

    assert (site.counts(one), site.said) == ((0, 1), [])
    assert site.counts(replace(one, image="b"), two) == (1, 1)
    assert "node one: stays as it is; the file has other values of image;" in site.said[0]
    assert site.counts(two) == (0, 1)
    assert site.said == ["node one: is not in the file; it stays (`grass node remove one` removes it)"]
    assert site.ready() == ["one", "two"]

    config = local.layout.existing(site.cluster.home / "clusters" / "uni")
    assert config is not None
    stopping.stop(config)
    assert site.counts(one, two) == (0, 2)
    wait_until(lambda: site.ready() == ["one", "two"], 30, "nodes that are ready again")
    assert [each.message for each in site.provisioner.findings() if not each.ok] == []
    site.cluster.delete()
    assert not processes.of_cluster(config) and not Path(config.home).exists() and not site.server.objects


POINTS = [
    (file_namespaces, "look", True),
    (local, "create", True),
    (local_namespaces, "_join", True),
    (local, "_write_supervision", True),
    (local, "wait_ready", False),
]


@pytest.mark.nightly
@pytest.mark.parametrize(("where", "name", "after"), POINTS, ids=[name for _, name, _ in POINTS])
def test_an_interrupted_create_goes_on_with_the_same_file(site: Site, where: Any, name: str, after: bool) -> None:
    one, two = site.wanted("one"), site.wanted("two")
    interrupted(lambda: site.create(one, two), where, name, after=after)
    if name == "look":
        assert not (site.cluster.home / "clusters" / "uni").exists()
    site.create(one, two)
    wait_until(lambda: site.ready() == ["one", "two"], 30, "nodes that are ready")
    assert site.counts(one, two) == (0, 2)


@pytest.mark.nightly
def test_a_look_that_fails_does_not_change_a_cluster_that_runs(site: Site) -> None:
    one = site.wanted("one")
    site.create(one)
    before = sorted(site.server.objects)
    with pytest.raises(Exception, match=r"namespaces\[two\]: claim none in namespace lab: not found"):
        site.create(one, replace(site.wanted("two"), claim="none"))
    assert (site.ready(), sorted(site.server.objects)) == (["one"], before)
    with pytest.raises(RunsAlreadyError):
        site.create()


@pytest.mark.nightly
def test_a_file_makes_a_cluster_whose_tasks_run_in_two_namespaces_of_a_real_kubernetes(tmp_path: Path) -> None:
    """As a user does it: by commands alone."""

    def grass(*arguments: str, code: int = Exit.OK) -> str:
        env = {**os.environ, "GRASS_HOME": str(tmp_path / "home"), "KUBECONFIG": str(kubernetes.KUBECONFIG)}
        done = subprocess.run([GRASS, *arguments], env=env, capture_output=True, text=True, timeout=55, check=False)
        assert done.returncode == code, (done.stdout, done.stderr)
        return done.stdout if code == Exit.OK else done.stderr

    with kubernetes.namespace() as (server, first), kubernetes.namespace() as (_, second):
        size = "resources: {cpu: 1, memory: 1GiB}"
        spaces = [
            f"{{namespace: {first}, name: a, image: '{IMAGE}', {size}}}",
            f"{{namespace: {second}, name: b, {size}}}",
        ]
        file = tmp_path / "cluster.yml"

        def write(*namespaces: str) -> str:
            file.write_text("mode: k8s\nname: pods\nnamespaces:\n" + "".join(f"  - {each}\n" for each in namespaces))
            return str(file)

        kubernetes.kubectl("apply", "--dry-run=client", "-f", "-", given=grass("create", write(*spaces), "--plan"))
        refused = grass("create", write(spaces[0], f"{{namespace: no-such-one, {size}}}"), code=Exit.BAD_INPUT)
        assert "namespaces[1]: namespace no-such-one: " in refused
        assert not (tmp_path / "home" / "clusters").exists()
        try:
            assert json.loads(grass("create", write(spaces[0]), "-o", "json"))["steps"] == {"done": 1, "unchanged": 0}
            made = json.loads(grass("create", write(*spaces), "-o", "json"))
            assert (made["mode"], made["steps"]) == ("grass/k8s", {"done": 1, "unchanged": 1})
            task = {
                "command": "echo on $GRASS_NODE; echo kept > $GRASS_OUTPUT/file",
                "resources": {"cpu": 0.1, "memory": "16MiB"},
            }
            with Client("pods", home=tmp_path / "home") as client:
                components = {"x": task, "y": {**task, "image": IMAGE, "where": {"kubernetes": second}}}
                job = client.submit({"name": "both", "components": components})
                assert client.wait(job.id, 45).state == "SUCCEEDED"
                assert [each.node for each in client.tasks(job.id)] == ["a", "b"]
                assert sorted(line.text for line in client.logs(job.id)) == ["on a", "on b"]
                assert (job.output() / "file").read_text() == "kept\n"
            found = LocalProvisioner(Session("pods", tmp_path / "home", print)).findings()
            assert len(found) == 3 and all(each.ok for each in found), found
            grass("node", "remove", "b", "--yes")
            assert json.loads(grass("create", write(*spaces), "-o", "json"))["steps"] == {"done": 1, "unchanged": 1}
        finally:
            grass("delete", "pods", "--yes")
        for namespace in (first, second):
            leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
            assert server.get(leases, kubernetes.ANY)["items"] == []
        assert not (tmp_path / "home" / "clusters" / "pods").exists()
