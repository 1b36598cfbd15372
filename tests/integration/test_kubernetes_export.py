"""Exported jobs on a real Kubernetes 1.20, through kubectl. It has no Indexed Jobs, so their pods are made as the Job
controller makes them: with the index in an annotation."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from grass.kubernetes.api import ApiServer
from grass.manifest import parse_job
from grass.manifest.document import read_documents
from grass.manifest.export.formats import FORMATS
from grass.manifest.export.losses import Exported
from tests.support import kubernetes
from tests.support.engine import IMAGE
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.needs_root,
]  # the objects themselves: tests/unit/test_export_manifests.py

SAY = 'echo "$GRASS_INDEX of $GRASS_REPLICAS: $GRASS_TASK $GRASS_ENTRY $LR $A_TOKEN $PRICE"; cat "$GRASS_ADDRESSES"; '
SAY += 'cat /etc/hostname; id -u; touch "$GRASS_OUTPUT/a" "$HOME/b"; pwd; exit "$CODE"'
WORKER: dict[str, Any] = {
    "image": IMAGE,
    "command": ["sh", "-c", SAY],
    "from": {"entries": ["a b", "$(HOME) $$"]},
    "env": {"LR": "1e-3", "A_TOKEN": "[REDACTED]", "PRICE": "$$(HOME)", "CODE": "0"},
    "ports": ["p"],
    "cwd": "/tmp",
    "resources": {"cpu": 0.1, "memory": "32MiB"},
    "grace": "0s",
}


class Namespace:
    """A namespace of its own, as a user of kubectl has one."""

    def __init__(self, server: ApiServer, name: str) -> None:
        self.server, self.name = server, name
        self.path = f"/api/v1/namespaces/{name}/pods"

    def kubectl(self, *words: str, given: str = "", fails: bool = False) -> str:
        command = [str(kubernetes.STATE / "bin" / "kubectl"), "--kubeconfig", str(kubernetes.KUBECONFIG)]
        ran = subprocess.run(
            [*command, "-n", self.name, *words], input=given, capture_output=True, text=True, check=False
        )
        assert (ran.returncode != 0) is fails, (ran.stdout, ran.stderr)
        return ran.stderr if fails else ran.stdout

    def create_secrets(self, exported: Exported) -> None:
        """Run the commands that the export says, with a value."""
        for note in exported.notes:
            said = re.search("kubectl (create secret .*)", note)
            assert said is not None
            self.kubectl(*shlex.split(said[1].replace("=VALUE", "=hidden")))

    def ended(self, *names: str) -> None:
        """Wait until the pods have ended by themselves."""

        def phases() -> dict[str, str]:
            return {each: self.server.get(f"{self.path}/{each}", kubernetes.ANY)["status"]["phase"] for each in names}

        wait_until(lambda: set(phases().values()) <= {"Succeeded", "Failed"}, 50, "pods to end")
        assert set(phases().values()) == {"Succeeded"}, [self.kubectl("logs", each) for each in names]


@pytest.fixture(scope="module")
def namespace() -> Iterator[Namespace]:
    with kubernetes.namespace() as (server, name):
        yield Namespace(server, name)


def exported(name: str, format: str, **keys: Any) -> Exported:
    return FORMATS[format](parse_job({"name": name, "components": {"w": {**WORKER, **keys}}}).job)


def lines(job: str, index: int, entry: str) -> list[str]:
    addresses = [f"{job}.w.{each} {job}-w-{each}.{job} 20000 p" for each in (0, 1)]
    said = f"{index} of 2: {job}.w.{index} {entry} 1e-3 hidden $$(HOME)"
    return [said, *addresses, f"{job}-w-{index}", "1000", "/tmp"]


def test_kubernetes_runs_the_pods_of_a_job(namespace: Namespace) -> None:
    found = exported("each", "kubernetes-pods")
    namespace.create_secrets(found)
    namespace.kubectl("create", "-f", "-", given=found.text)
    namespace.ended("each-w-0", "each-w-1")
    said = namespace.kubectl("logs", "-l", "app.kubernetes.io/instance=each").split("\n")
    assert said == [*lines("each", 0, "a b"), *lines("each", 1, "$(HOME) $$"), ""]


def test_a_pod_of_an_indexed_job_gets_its_index_and_its_entry(namespace: Namespace) -> None:
    found = exported("one", "kubernetes")
    namespace.create_secrets(found)
    documents = {each["kind"]: each for each in read_documents(found.text)}
    template = documents.pop("Job")["spec"]["template"]
    template["metadata"] |= {
        "name": "one-w-1-x7k2p",
        "annotations": {"batch.kubernetes.io/job-completion-index": "1"},
    }
    template["spec"] |= {"hostname": "one-w-1"}
    template["spec"]["containers"][0]["env"].append({"name": "JOB_COMPLETION_INDEX", "value": "1"})
    pod = {"apiVersion": "v1", "kind": "Pod", **template}
    namespace.kubectl("create", "-f", "-", given="\n".join(map(json.dumps, (*documents.values(), pod))))
    namespace.ended("one-w-1-x7k2p")
    assert namespace.kubectl("logs", "one-w-1-x7k2p").split("\n") == [*lines("one", 1, "$(HOME) $$"), ""]


def test_an_old_kubernetes_drops_nothing_of_pods_and_refuses_an_indexed_job(namespace: Namespace) -> None:
    everything = {
        "ready": {"port": "p"},
        "restart": {"limit": 2},
        "timeout": "1h",
        "where": {"zone": ["a", "b"]},
        "resources": {"cpu": 0.5, "memory": "64MiB", "gpu": 1, "disk": "1GiB"},
        "container": {"user": "7:8", "shm": "1MiB", "entrypoint": ["sh"]},
        "framework": "torch",
    }
    for each in read_documents(exported("old", "kubernetes-pods", **everything).text):
        kind = {"ConfigMap": "configmaps", "Service": "services", "Pod": "pods"}[each["kind"]]
        path = f"/api/v1/namespaces/{namespace.name}/{kind}?dryRun=All"
        assert list(dropped(each, namespace.server.post(path, each, kubernetes.ANY))) == []
    said = namespace.kubectl(
        "create", "--dry-run=client", "-f", "-", given=exported("old", "kubernetes").text, fails=True
    )
    assert 'unknown field "completionMode"' in said


def dropped(sent: Any, kept: Any, path: str = "") -> Iterator[str]:
    """Yield what a server did not keep of an object."""
    if isinstance(sent, dict):
        for key, value in sent.items():
            yield from dropped(value, (kept or {}).get(key), f"{path}.{key}")
    elif isinstance(sent, list):
        for at, value in enumerate(sent):
            yield from dropped(value, kept[at] if at < len(kept or []) else None, f"{path}[{at}]")
    elif sent != kept:
        yield path
