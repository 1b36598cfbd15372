"""A claim of a real namespace as the share of its pods: what tasks see of it, what they cannot reach, and how files get
there. The volume is a folder of this machine, so the tests look at it directly."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from grass.api.client import Client
from grass.api.login import log_in
from grass.api.login_invitation import parse_invitation
from grass.cli.exits import Exit
from grass.kubernetes import rights
from grass.kubernetes.api import ApiServer
from grass.node_config import KubernetesConfig
from tests.support import kubernetes
from tests.support.engine import IMAGE
from tests.support.local_cluster import LocalCluster
from tests.support.waiting import wait_until

GRASS = Path(sys.executable).parent / "grass"
TAR_IMAGE = IMAGE
"""It has busybox, with tar."""


@dataclass
class Node:
    """The node ``pods`` of a cluster, whose share is the claim `team`, in ``folder``."""

    cluster: LocalCluster
    server: ApiServer
    namespace: str
    folder: Path

    def grass(self, *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "GRASS_HOME": str(self.cluster.home)}
        return subprocess.run(
            [GRASS, *arguments], env=env, capture_output=True, text=True, timeout=55, check=False, **more
        )

    def add(self, name: str, claim: str, kubeconfig: Path = kubernetes.KUBECONFIG) -> subprocess.CompletedProcess[str]:
        place = ["--kubernetes", self.namespace, "--kubeconfig", str(kubeconfig)]
        size = ["--cpu", "2", "--memory", "2GiB"]
        return self.grass("node", "add", *place, "--name", name, *size, "--claim", claim, "--image", TAR_IMAGE)

    def helpers(self) -> list[Any]:
        """Return the pods that copy files."""
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        found = self.server.get(path, kubernetes.ANY, {"labelSelector": "grass-cluster.org/files"})["items"]
        return [each for each in found if "deletionTimestamp" not in each["metadata"]]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    folder = tmp_path_factory.mktemp("volumes") / "team"
    with (
        kubernetes.namespace() as (server, namespace),
        kubernetes.claim(server, namespace, "team", folder),
        LocalCluster().running() as cluster,
    ):
        made = Node(cluster, server, namespace, folder)
        done = made.add("pods", "team")
        assert done.returncode == 0, done.stderr
        yield made


@pytest.fixture
def client(node: Node) -> Iterator[Client]:
    with node.cluster.client() as client:
        yield client


def job(name: str, command: str, **more: Any) -> dict[str, Any]:
    parts = {"image": IMAGE, "command": command, "resources": {"cpu": 0.01, "memory": "16MiB"}, **more}
    return {"name": name, "components": {"t": {"runtime": "kubernetes", **parts}}}


def said(client: Client, name: str) -> list[str]:
    view = client.wait(name, 45)
    lines = [line.text for line in client.logs(name)]
    assert view.state == "SUCCEEDED", (lines, [each.reason for each in client.tasks(name)])
    return lines


@pytest.fixture(scope="module")
def ann(node: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Another user."""
    home = tmp_path_factory.mktemp("ann")
    with node.cluster.client() as admin:
        log_in(parse_invitation(admin.add_user("ann").invitation), home / "clusters" / "lab")
    with Client("lab", home=home) as client:
        yield client


LOOK = """
cd $GRASS_DATA && busybox find . | busybox sort
[ $GRASS_OUTPUT = $GRASS_DATA/jobs/$GRASS_JOB_ID ] && echo result >$GRASS_OUTPUT/r && echo x >data/ann/mine
echo all >data/shared/ann/offer
for each in data jobs data/shared data/bob jobs/other; do touch $each/x 2>/dev/null && echo wrote $each; done; true
"""


@pytest.mark.nightly
def test_a_task_sees_its_own_part_of_the_claim_and_what_it_writes_stays_there(
    node: Node, client: Client, ann: Client
) -> None:
    for secret in ("data/bob/secret", "jobs/other/secret", "data/shared/bob/offer", "sets/mnist/0", "private"):
        path = node.folder / secret
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("of others")
    ann.start(job("look", LOOK))
    lines = said(ann, "look")
    run = ann.job("look").id
    assert [each for each in lines if "wrote" in each] == []
    assert "./data/shared/bob/offer" in lines
    assert not [each for each in lines if "secret" in each or "sets" in each or "private" in each]
    assert (node.folder / "jobs" / run / "r").read_text() == "result\n"
    assert (node.folder / "data" / "ann" / "mine").read_text() == "x\n"
    assert (node.folder / "data" / "shared" / "ann" / "offer").read_text() == "all\n"


@pytest.mark.nightly
def test_a_job_reads_what_it_waited_for_and_the_folders_that_it_mounts(node: Node, ann: Client) -> None:
    (node.folder / "code").mkdir()
    (node.folder / "code" / "run.sh").write_text(
        "cat $GRASS_AFTER_FIRST_OUTPUT/r /sets/0; touch /sets/1 ../x || echo no"
    )
    (node.folder / "sets2").mkdir()
    (node.folder / "sets2" / "0").write_text("zero\n")
    ann.start(job("first", "echo one >$GRASS_OUTPUT/r"))
    mounts = [{"source": "/sets2", "target": "/sets", "shared": True}]
    ann.start({**job("second", "sh run.sh", cwd="code", container={"mounts": mounts}), "after": ["first"]})
    lines = said(ann, "second")
    assert lines[:2] == ["one", "zero"] and lines[-1] == "no"


@pytest.mark.nightly
def test_a_link_in_a_task_leads_nowhere_else(node: Node, client: Client, ann: Client, tmp_path: Path) -> None:
    """A task makes links in every place in which it may write, to folders of others; pods follow none of them."""
    (node.folder / "data" / "bob").mkdir(parents=True, exist_ok=True)
    (node.folder / "data" / "bob" / "secret").write_text("secret\n")
    script = """
    busybox ln -s ../bob $GRASS_DATA/data/ann/steal; busybox ln -s ../../bob $GRASS_DATA/data/shared/ann/steal
    busybox ln -s ../../data/bob $GRASS_OUTPUT/steal; busybox ln -s /grass/share/data/bob $GRASS_DATA/data/ann/whole
    cat $GRASS_DATA/data/ann/steal/secret $GRASS_OUTPUT/steal/secret || echo none
    """
    ann.start(job("links", script))
    assert "secret" not in said(ann, "links")
    run = ann.job("links").id
    for number, source in enumerate(
        ("/data/ann/steal", "/data/shared/ann/steal", f"/jobs/{run}/steal", "/data/bob", "/jobs")
    ):
        name = f"mount-{number}"
        container = {"mounts": [{"source": source, "target": "/m", "shared": True}]}
        ann.start(job(name, "cat /m/secret", container=container))
        assert ann.wait(name, 30).state == "FAILED"
        assert [line.text for line in ann.logs(name)] == []
    (tmp_path / "f").write_text("admin\n")
    for remote in ("data/ann/steal/secret", "data/ann/steal/"):
        node.grass("data", "push", str(tmp_path / "f"), remote, "--node", "pods")
    assert (node.folder / "data" / "bob" / "secret").read_text() == "secret\n"
    assert sorted(each.name for each in (node.folder / "data" / "bob").iterdir()) == ["secret"]
    done = node.grass("data", "pull", "data/ann/steal", str(tmp_path / "got"), "--node", "pods")
    assert done.returncode == Exit.BAD_INPUT and "is a link" in done.stderr
    done = node.grass("data", "pull", "data/ann", str(tmp_path / "all"), "--node", "pods")
    assert done.returncode == 0 and not (tmp_path / "all" / "whole").exists()


@pytest.mark.nightly
def test_files_go_to_the_claim_and_come_back(node: Node, ann: Client, tmp_path: Path) -> None:
    local = tmp_path / "set"
    (local / "deep").mkdir(parents=True)
    (local / "deep" / "large").write_bytes(os.urandom(3_000_000))
    (local / "link").symlink_to("deep/large")
    for _ in range(2):
        done = node.grass("data", "push", str(local), "data/ann/set", "--node", "pods")
        assert done.returncode == 0, done.stderr
    ann.start(
        job(
            "reads",
            "busybox md5sum $GRASS_DATA/data/ann/set/link | busybox cut -c-32; echo more >$GRASS_DATA/data/ann/set/new",
        )
    )
    checksum = subprocess.run(["md5sum", local / "deep" / "large"], capture_output=True, text=True, check=True).stdout
    assert said(ann, "reads") == [checksum[:32]]
    back = tmp_path / "back"
    done = node.grass("data", "pull", "data/ann/set", str(back), "--node", "pods")
    assert done.returncode == 0 and (back / "link").read_bytes() == (local / "deep" / "large").read_bytes(), done.stderr
    assert (back / "new").read_text() == "more\n"
    (back / "new").write_text("edited")
    done = node.grass("data", "pull", "data/ann/set", str(back), "--node", "pods")
    assert done.returncode == Exit.BAD_INPUT and "back/new" in done.stderr and (back / "new").read_text() == "edited"
    done = node.grass("data", "pull", "data/ann/set/new", str(tmp_path / "single"), "--node", "pods")
    assert done.returncode == 0 and (tmp_path / "single").read_text() == "more\n"
    assert node.helpers() == []


@pytest.mark.nightly
def test_what_cannot_be_copied_is_said_and_no_pod_stays(node: Node, tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    os.mkfifo(node.folder / "pipe")
    (node.folder / "shut").mkdir(mode=0o755)
    here, file = str(tmp_path / "x"), str(tmp_path / "f")
    cases = {
        ("pull", "nothing/here", here, "--node", "pods"): "not found, in the share of node pods",
        ("pull", "pipe", here, "--node", "pods"): "neither a file nor a folder",
        ("pull", "x", "--node", "local"): "is no namespace",
        ("push", file, "shut/f", "--node", "pods"): "ermission denied",
        ("push", str(tmp_path / "none"), "data/ann/x", "--node", "pods"): "not found on this machine",
        ("push", file, "jobs/x", "--node", "pods"): "is written by Grass itself",
        ("push", file, "../x", "--node", "pods"): "leaves the share",
        ("push", str(tmp_path), "data", "--node", "pods"): "name one, such as data/ann",
    }
    with ThreadPoolExecutor(4) as threads:
        done = list(threads.map(lambda arguments: node.grass("data", *arguments), cases))
    for each, why in zip(done, cases.values(), strict=True):
        assert each.returncode == Exit.BAD_INPUT and why in each.stderr, (each.args, each.stderr)
    assert node.helpers() == [] and not (node.folder / "nothing").exists()


@pytest.mark.nightly
def test_an_interrupted_transfer_removes_its_pod(node: Node, tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(2 << 30)
    env = {**os.environ, "GRASS_HOME": str(node.cluster.home)}
    command = [GRASS, "data", "push", str(tmp_path / "large"), "data/ann/large", "--node", "pods"]
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) as pushing:
        wait_until(lambda: (node.folder / "data" / "ann" / "large").exists(), 40, "the first bytes")
        pushing.send_signal(signal.SIGINT)
        assert pushing.wait(30) == Exit.INTERRUPTED
    wait_until(lambda: not node.helpers(), 20, "no pod")
    (node.folder / "data" / "ann" / "large").unlink()


@pytest.mark.nightly
def test_job_pull_names_the_command_that_finds_the_files(
    node: Node, ann: Client, client: Client, tmp_path: Path
) -> None:
    client.start(job("far", "echo far >$GRASS_OUTPUT/far"))
    assert said(client, "far") == []
    run = client.job("far").id
    done = node.grass("job", "pull", "far", "--to", str(tmp_path / "far"))
    assert done.returncode == 0 and f"grass data pull jobs/{run}" in done.stderr, done.stderr
    assert node.grass("data", "pull", f"jobs/{run}", str(tmp_path / "far"), "--node", "pods").returncode == 0
    assert (tmp_path / "far" / "far").read_text() == "far\n"


@pytest.mark.nightly
def test_a_claim_that_pods_cannot_share_is_refused_and_one_that_is_gone_is_found(node: Node, tmp_path: Path) -> None:
    with kubernetes.claim(node.server, node.namespace, "single", tmp_path / "single", "ReadWriteOnce"):
        done = node.add("bad", "single")
        assert done.returncode == Exit.BAD_INPUT and "its access modes are ReadWriteOnce" in done.stderr
    done = node.add("bad", "none")
    assert done.returncode == Exit.BAD_INPUT and "claim none in namespace" in done.stderr and "not found" in done.stderr
    path = f"/api/v1/namespaces/{node.namespace}/persistentvolumeclaims"
    spec = {"accessModes": ["ReadWriteMany"], "storageClassName": "none", "resources": {"requests": {"storage": "1Gi"}}}
    node.server.post(path, {"metadata": {"name": "pending"}, "spec": spec}, kubernetes.ANY)
    done = node.add("bad", "pending")
    assert done.returncode == Exit.BAD_INPUT and "it has no volume (Pending)" in done.stderr, done.stderr
    settings = Path(node.cluster.config.home) / "nodes" / "pods" / "cluster.json"
    before = settings.read_text()
    settings.write_text(before.replace('"team"', '"pending"'))
    done = node.grass("doctor")
    settings.write_text(before)
    assert "claim pending" in done.stdout + done.stderr, (done.stdout, done.stderr)


def user(node: Node, folder: Path) -> Path:
    """Return the kubeconfig of a user who has the Role of a plan, and no other right."""
    path = f"/api/v1/namespaces/{node.namespace}/serviceaccounts"
    node.server.post(path, {"metadata": {"name": "lab"}}, kubernetes.ANY)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    token = node.server.post(f"{path}/lab/token", request, kubernetes.ANY)["status"]["token"]
    role, binding = rights.objects(KubernetesConfig(node.namespace, claim="team"))
    binding["subjects"] = [{"kind": "ServiceAccount", "name": "lab", "namespace": node.namespace}]
    base = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{node.namespace}"
    node.server.post(f"{base}/roles", role, kubernetes.ANY)
    node.server.post(f"{base}/rolebindings", binding, kubernetes.ANY)
    found = yaml.safe_load(kubernetes.KUBECONFIG.read_text())
    found["users"][0]["user"] = {"token": token}
    kubeconfig = folder / "lab.kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(found))
    return kubeconfig


@pytest.mark.nightly
def test_the_role_of_the_plan_is_enough_for_tasks_and_files_and_for_no_other_claim(
    node: Node, client: Client, tmp_path: Path
) -> None:
    kubeconfig = user(node, tmp_path)
    done = node.add("bad", "none", kubeconfig)
    assert done.returncode == Exit.NOT_ALLOWED and "get persistentvolumeclaims none" in done.stderr, done.stderr
    done = node.add("few-rights", "team", kubeconfig)
    assert done.returncode == 0, done.stderr
    (tmp_path / "f").write_text("few\n")
    done = node.grass("data", "push", str(tmp_path / "f"), "few-sets/few", "--node", "few-rights")
    assert done.returncode == 0, done.stderr
    mounts = [{"source": "/few-sets", "target": "/sets", "shared": True}]
    client.start(job("few", "cat /sets/few", avoid=["pods"], container={"mounts": mounts}))
    assert said(client, "few") == ["few"] and client.tasks("few")[0].node == "few-rights"
