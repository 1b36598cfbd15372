"""Resources of et-operator, KubeDL and DLRover, served as jobs by a local cluster: on a real Kubernetes 1.20."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from grass.api.client import Client
from grass.errors import ConflictError
from grass.kubernetes import rights
from grass.kubernetes.api import PLAIN_MERGE, ApiServer, RefusedError
from grass.kubernetes.credentials import Credential, Login
from grass.kubernetes.custom_kinds import ELASTIC_JOB, KINDS, MARS_JOB, SCALE_IN, SCALE_OUT, TRAINING_JOB, Kind
from grass.kubernetes.custom_resources import RESOURCE
from grass.model.namespace import Serve
from grass.node_config import KubernetesConfig
from grass.supervision.supervisor import Supervisor
from node.operator import identity, page
from node.operator.pages import Pages
from tests.support import kubernetes
from tests.support.engine import IMAGE
from tests.support.kubernetes import ANY, kubectl
from tests.support.local_cluster import LocalCluster
from tests.support.waiting import wait_until

GRASS = Path(sys.executable).parent / "grass"
SLEEP = ["sh", "-c", "exec sleep 300"]


@dataclass
class Served:
    """A namespace that a cluster serves, and an administrator's way into it."""

    cluster: LocalCluster
    server: ApiServer
    namespace: str
    kubeconfig: Path

    def grass(self, *arguments: str) -> str:
        env = {**os.environ, "GRASS_HOME": str(self.cluster.home)}
        done = subprocess.run([GRASS, *arguments], env=env, capture_output=True, text=True, timeout=55, check=False)
        assert done.returncode == 0, (done.stdout, done.stderr)
        return done.stdout

    def add(self, *options: str) -> str:
        place = ["--kubernetes", self.namespace, "--kubeconfig", str(self.kubeconfig), "--name", "pods"]
        return self.grass("node", "add", *place, "--cpu", "2", "--memory", "2GiB", *options)

    def kubectl(self, *words: str, given: str = "") -> str:
        return kubectl("-n", self.namespace, *words, given=given)

    def apply(self, kind: Kind, name: str, spec: dict[str, Any], verb: str = "create") -> None:
        body = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": name}, "spec": spec}
        self.kubectl(verb, "-f", "-", given=yaml.safe_dump({**body, "status": {}}))

    def get(self, kind: Kind, name: str) -> Any:
        return self.server.get(f"{kind.path(self.namespace)}/{name}", ANY)

    def word(self, kind: Kind, name: str) -> str:
        """The state of a resource, as its last condition says it."""
        status = self.get(kind, name).get("status") or {}
        return status["conditions"][-1]["type"] if status.get("conditions") else ""

    def shown(self, kind: Kind, name: str) -> tuple[str, str]:
        """The header of the second column of `kubectl get`, and what is in it."""
        header, row = self.kubectl("get", kind.plural, name).strip().split("\n")
        return header.split()[1], row.split()[1]

    def wait(self, kind: Kind, name: str, word: str) -> None:
        try:
            wait_until(lambda: self.word(kind, name) == word, 45, every=0.2)
        except AssertionError as error:
            error.add_note(f"{kind.name} {name} is not {word}: {self.get(kind, name)}")
            raise

    def job(self, kind: Kind, name: str) -> str:
        """The id of the job of a resource."""
        return identity.run_of(kind, RESOURCE.decode(json.dumps(self.get(kind, name)))).id

    def tasks(self, client: Client, kind: Kind, name: str) -> list[tuple[str, str | None]]:
        found = client.tasks(self.job(kind, name))
        return [(each.task, each.node) for each in found if each.state == "RUNNING"]

    def reasons(self, name: str) -> set[str]:
        """Reasons of the events of a resource."""
        events = self.server.get(f"/api/v1/namespaces/{self.namespace}/events", ANY)["items"]
        return {each["reason"] for each in events if each["involvedObject"]["name"] == name}

    def operator(self) -> int:
        states = Supervisor(self.cluster.config).daemons()
        return next((each.pid or 0 for each in states if each.name == "operator@pods"), 0)

    def pods(self) -> int:
        found = self.server.get(f"/api/v1/namespaces/{self.namespace}/pods", ANY)["items"]
        return sum("deletionTimestamp" not in each["metadata"] for each in found)


def crds() -> None:
    """Install the CRDs, as an administrator does. They stay: other tests use them, too."""
    printed = subprocess.run([GRASS, "kubernetes", "crds"], capture_output=True, text=True, check=True).stdout
    kubectl("apply", "--server-side", "-f", "-", given=printed)
    kubectl("wait", "--for=condition=established", "--timeout=20s", *(f"crd/{kind.crd}" for kind in KINDS))


def account(served: Served) -> None:
    """Make an account that has the rights of the Role that is printed, and no others."""
    served.kubectl("create", "serviceaccount", "grass")
    place = ["--kubernetes", served.namespace, "--kubeconfig", str(kubernetes.KUBECONFIG)]
    role = served.grass("node", "add", *place, "--serve", "pods", "--plan")
    served.kubectl("apply", "-f", "-", given=role.replace("USER", f"system:serviceaccount:{served.namespace}:grass"))
    wait_until(lambda: served.kubectl("get", "sa", "grass", "-o", "jsonpath={.secrets[0].name}"))
    secret = served.kubectl("get", "sa", "grass", "-o", "jsonpath={.secrets[0].name}")
    token = base64.b64decode(served.kubectl("get", "secret", secret, "-o", "jsonpath={.data.token}")).decode()
    known = yaml.safe_load(kubernetes.KUBECONFIG.read_text())
    [context] = known["contexts"]
    known["users"] = [{"name": context["context"]["user"], "user": {"token": token}}]
    served.kubeconfig.write_text(yaml.safe_dump(known))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with kubernetes.namespace() as (server, namespace), LocalCluster().running() as cluster:
        crds()
        made = Served(cluster, server, namespace, tmp_path_factory.mktemp("account") / "kubeconfig")
        account(made)
        made.add("--serve", "pods")
        yield made


@pytest.fixture
def client(served: Served) -> Iterator[Client]:
    with served.cluster.client() as client:
        yield client


def role(command: list[str], replicas: int = 1, image: str | None = IMAGE, **more: Any) -> dict[str, Any]:
    limits = {"cpu": "10m", "memory": "16Mi"}
    container = {"name": "main", "command": command, "resources": {"limits": limits}}
    if image is not None:
        container["image"] = image
    return {"replicas": replicas, "template": {"spec": {"containers": [container]}}, **more}


def elastic(*script: str, **more: Any) -> dict[str, Any]:
    return {"replicaSpecs": {"worker": role(["sh", "-c", *script], restartCount=0, **more)}}


def nowhere() -> dict[str, Any]:
    """A job that fits on no node, and waits."""
    spec = elastic("true")
    spec["replicaSpecs"]["worker"]["template"]["spec"]["nodeSelector"] = {"nowhere": "yes"}
    return spec


def training(workers: int = 2) -> dict[str, Any]:
    """A job whose tasks run as processes on the cluster's own node: those with a framework do not run in pods."""
    launcher = role(["sh", "-c", "while [ ! -e /tmp/never ]; do sleep 0.2; done"], image=None)
    worker = role(SLEEP, workers, image=None, minReplicas=1, maxReplicas=4)
    return {"etReplicaSpecs": {"launcher": launcher, "worker": worker}}


@pytest.mark.nightly
def test_a_resource_runs_in_a_pod_and_its_status_is_shown_in_the_words_of_its_system(
    served: Served, client: Client
) -> None:
    served.apply(ELASTIC_JOB, "hello", elastic("echo I am $GRASS_TASK on $GRASS_NODE", replicas=2))
    served.wait(ELASTIC_JOB, "hello", "Succeeded")
    job = client.job(served.job(ELASTIC_JOB, "hello"))
    assert sorted(line.text for line in client.logs(job.id)) == [f"I am {job.name}.worker.{n} on pods" for n in (0, 1)]
    status = served.get(ELASTIC_JOB, "hello")["status"]
    assert status["replicaStatuses"] == {"worker": {"active": 0, "succeeded": 2, "failed": 0}}
    assert status["startTime"] <= status["completionTime"]
    first, *_, last = (each["type"] for each in status["conditions"])  # it may never have been seen running
    assert (first, last) == ("Created", "Succeeded")
    assert served.shown(ELASTIC_JOB, "hello") == ("PHASE", "Succeeded")


@pytest.mark.nightly
def test_deleting_a_resource_stops_its_job_also_if_the_operator_was_away(served: Served, client: Client) -> None:
    served.apply(ELASTIC_JOB, "long", elastic("exec sleep 300"))
    served.wait(ELASTIC_JOB, "long", "Running")
    job = served.job(ELASTIC_JOB, "long")
    assert served.pods() == 1
    supervisor = Supervisor(served.cluster.config)
    supervisor.stop_daemon("operator@pods")
    wait_until(lambda: served.operator() == 0)
    served.kubectl("delete", "elasticjob", "long")
    assert client.job(job).state == "RUNNING"
    supervisor.start_daemon("operator@pods")
    assert client.wait(job, 45).state == "STOPPED"
    wait_until(lambda: served.pods() == 0, 30)


@pytest.mark.nightly
def test_a_killed_operator_starts_no_job_twice(served: Served, client: Client) -> None:
    names = [f"burst-{number}" for number in range(4)]
    for name in names:
        served.apply(ELASTIC_JOB, name, nowhere())
        os.kill(pid := served.operator(), signal.SIGKILL)
        wait_until(lambda gone=pid: served.operator() not in (0, gone), 20)
    for name in names:
        served.wait(ELASTIC_JOB, name, "Created")
    tag = f"{identity.NAMESPACE}={served.namespace}"
    started = [job.name for job in client.jobs(all=True, tag=[tag]) if job.name.startswith("burst-")]
    assert len(started) == len(set(started)) == len(names)
    served.kubectl("delete", "elasticjob", *names)
    wait_until(lambda: not [job for job in client.jobs(tag=[tag]) if job.name.startswith("burst-")], 30)


@pytest.mark.nightly
def test_a_training_job_runs_and_is_scaled_by_resources(served: Served, client: Client) -> None:
    served.add("--serve", "anywhere")
    served.apply(TRAINING_JOB, "train", training())
    served.wait(TRAINING_JOB, "train", "Running")
    served.apply(SCALE_OUT, "more", {"selector": {"name": "train"}, "toAdd": {"count": 1}, "timeout": 30})
    served.wait(SCALE_OUT, "more", "ScaleSucceeded")
    assert served.shown(SCALE_OUT, "more") == ("PHASE", "ScaleSucceeded")
    assert served.get(SCALE_OUT, "more")["status"]["addPods"] == ["train-worker-2"]
    workers = {f"worker.{index}" for index in range(3)}
    assert {task for task, _ in served.tasks(client, TRAINING_JOB, "train")} == {"launcher.0", *workers}
    left = {"selector": {"name": "train"}, "toDelete": {"podNames": ["train-worker-1"]}, "timeout": 1}
    served.apply(SCALE_IN, "less", left)
    served.wait(SCALE_IN, "less", "ScaleSucceeded")
    wait_until(lambda: served.get(TRAINING_JOB, "train")["status"]["currentWorkers"][1:] == ["train-worker-2"])
    served.apply(SCALE_IN, "too-many", {"selector": {"name": "train"}, "toDelete": {"count": 2}})
    served.wait(SCALE_IN, "too-many", "ScaleFailed")
    served.kubectl("delete", "trainingjob", "train")
    tag = f"{identity.NAME}=train"
    wait_until(lambda: not client.jobs(tag=[tag]), 30)
    served.add("--serve", "pods")


@pytest.mark.nightly
def test_no_field_of_a_mars_job_is_pruned(served: Served, client: Client) -> None:
    example = yaml.safe_load(Path("examples/foreign/mars_job.yml").read_text())
    for name in ("Scheduler", "WebService", "Worker"):
        pod = example["spec"]["marsReplicaSpecs"][name]["template"]["spec"]
        pod["nodeSelector"] = {"nowhere": "yes"}
    served.apply(MARS_JOB, "mars", example["spec"])
    served.wait(MARS_JOB, "mars", "Created")
    assert served.get(MARS_JOB, "mars")["spec"] == example["spec"]
    specification = client.job(served.job(MARS_JOB, "mars")).specification
    options = specification.components["worker"].framework.options
    assert options["workerCachePercentage"] or options["workerCacheSize"]
    assert served.shown(MARS_JOB, "mars") == ("STATE", "Created")
    said = served.get(MARS_JOB, "mars")["status"]["conditions"][-1]["message"]
    assert "nowhere" in said or "no node" in said, said
    served.kubectl("delete", "marsjob", "mars")


@pytest.mark.nightly
def test_the_page_of_a_mars_job_is_made_and_changed_and_goes_with_the_resource(tmp_path: Path) -> None:
    """By an account without rights, then with those of the Role."""
    with kubernetes.namespace() as (server, namespace), ExitStack() as closed:
        crds()
        spec = {"webHost": "mars.example.org", "marsReplicaSpecs": {}}
        about = {"apiVersion": MARS_JOB.api_version, "kind": MARS_JOB.name}
        body = {**about, "metadata": {"name": "mars"}, "spec": spec}
        path = f"{MARS_JOB.path(namespace)}/mars"
        found = RESOURCE.decode(json.dumps(server.post(MARS_JOB.path(namespace), body, ANY)))
        both = [f"{each.format(namespace)}/{page.name_of(found)}" for each in (page.SERVICES, page.INGRESSES)]
        login = Login(str(kubernetes.account(server, namespace, "operator", tmp_path)))
        limited = closed.enter_context(closing(ApiServer(Credential(login.read))))
        pages, web = Pages(limited, namespace), page.Web("supervisor", "web")
        with pytest.raises(RefusedError, match=r"cannot create resource .services."):
            pages.publish(found, "j-1", web, 7005)
        user = f"system:serviceaccount:{namespace}:operator"
        for each in rights.objects(KubernetesConfig(namespace, serve=Serve.PODS), user=user):
            kubectl("-n", namespace, "apply", "-f", "-", given=yaml.safe_dump(each))
        for port in (7005, 7006):
            pages.publish(found, "j-1", web, port)
        service, ingress = (server.get(each, ANY) for each in both)
        assert service["spec"]["ports"][0]["targetPort"] == 7006
        assert ingress["spec"]["rules"][0]["host"] == "mars.example.org"
        assert {each["metadata"]["ownerReferences"][0]["uid"] for each in (service, ingress)} == {found.metadata.uid}
        server.patch(both[1], {"metadata": {"ownerReferences": None}}, ANY, PLAIN_MERGE)
        with pytest.raises(ConflictError, match="belongs to somebody else"):
            pages.publish(found, "j-1", web, 7005)
        server.delete(both[1], ANY)
        wrong = msgspec.structs.replace(found, spec={"webHost": "Not_A_Host"})
        with pytest.raises(RefusedError, match="host"):
            pages.publish(wrong, "j-1", web, 7005)
        pages.publish(found, "j-1", web, 7005)
        server.delete(path, ANY)
        wait_until(lambda: not any(kubernetes.exists(server, each) for each in both), 40, "the end of both")


@pytest.mark.nightly
def test_what_grass_refuses_says_why_and_runs_once_it_is_mended(served: Served) -> None:
    served.apply(ELASTIC_JOB, "wrong", {**elastic("true"), "distributionStrategy": "ParameterServerStrategy"})
    served.wait(ELASTIC_JOB, "wrong", "Failed")
    [condition] = served.get(ELASTIC_JOB, "wrong")["status"]["conditions"]
    assert condition["reason"] == "Rejected" and "spec.replicaSpecs: must have a ps" in condition["message"]
    assert served.reasons("wrong") == {"Rejected"}
    served.apply(ELASTIC_JOB, "wrong", nowhere(), "replace")
    served.wait(ELASTIC_JOB, "wrong", "Created")
    served.kubectl("delete", "elasticjob", "wrong")


@pytest.mark.nightly
def test_grass_stops_to_serve_a_resource_whose_status_another_one_writes(served: Served) -> None:
    served.apply(ELASTIC_JOB, "taken", nowhere())
    served.wait(ELASTIC_JOB, "taken", "Created")
    path = f"{ELASTIC_JOB.path(served.namespace)}/taken/status?fieldManager=dlrover"
    served.server.patch(path, {"status": {"phase": "Pending"}}, ANY, "application/merge-patch+json")
    wait_until(lambda: served.reasons("taken") == {"AnotherOperator"})
    assert served.shown(ELASTIC_JOB, "taken") == ("PHASE", "Pending")
    served.kubectl("delete", "elasticjob", "taken")


@pytest.mark.nightly
def test_serving_is_turned_off_and_on_again_and_jobs_go_on(served: Served, client: Client) -> None:
    served.apply(ELASTIC_JOB, "stays", nowhere())
    served.wait(ELASTIC_JOB, "stays", "Created")
    served.add("--serve", "off")
    assert served.operator() == 0
    assert "operator@pods" not in served.grass("status")
    assert not client.job(served.job(ELASTIC_JOB, "stays")).state.ended
    served.add("--serve", "pods")
    assert "operator@pods" in served.grass("status")
    served.kubectl("delete", "elasticjob", "stays")
    wait_until(lambda: not client.jobs(tag=[f"{identity.NAME}=stays"]), 30)
