"""Each kind of object that Grass sends to an API server, with all options, but for those of a master inside."""

from __future__ import annotations

from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from grass.kubernetes import registry, rights, trial
from grass.kubernetes.crds import crds
from grass.kubernetes.custom_kinds import MARS_JOB
from grass.kubernetes.custom_resources import RESOURCE
from grass.kubernetes.names import node_labels
from grass.model.job import Container, Mount
from grass.model.namespace import QueueKind, Serve
from grass.node_config import KubernetesConfig
from node.operator import page
from node.operator.events import warning
from node.runtime.kubernetes import carrier
from node.runtime.kubernetes.affinity import affinity
from node.runtime.kubernetes.job_files import RELAY
from node.runtime.kubernetes.pods import pod
from node.runtime.protocol import Launch, Start
from tests.doubles.kubernetes_api import kubernetes_api
from tests.support.pod_double import doubled_pods

SETTINGS = KubernetesConfig(
    "lab",
    image="i:1",
    claim="team",
    user=2000,
    lost_after=120,
    pull_policy="Always",
    pull_secrets=("one",),
    service_account="tasks",
    priority_class="low",
    labels={"team": "vision"},
    annotations={"note": "a"},
    tolerations=({"key": "gpu", "operator": "Exists"},),
    queue="team",
    queue_kind=QueueKind.VOLCANO,
    registry="registry.example.org/team",
    registry_secret="login",
    serve=Serve.PODS,
)
START = Start("j-1/t.0/1", "j-1/t", {"A": "1"}, {"web": 20001}, (0, 1), late={"GRASS_SIZE": "2"})
RICH = Launch(
    ["/bin/sh", "-c", "true"],
    {"B": "$(2)"},
    "/app",
    30.0,
    runtime="kubernetes",
    image="i:1",
    cpu=1500,
    memory=1 << 30,
    container=Container(
        entrypoint=("tini",), shm=1 << 28, mounts=(Mount("sets", "/sets", read_only=True, shared=True),)
    ),
    timeout=60.0,
    gang=2,
    where={"zone": ("a", "b")},
    files={"addresses": "", RELAY: "#!/bin/sh\n"},
    user="ann",
)


def of_pods() -> list[Any]:
    start = pod("c", "n", START, RICH, SETTINGS, affinity(RICH, 2, None), "g-1")
    kueue = pod("c", "n", START, RICH, KubernetesConfig("lab", queue="q", queue_kind=QueueKind.KUEUE), {}, "g-1")
    plain = pod(
        "c", "n", START, Launch(["true"], {}, None, 1.0, runtime="kubernetes", image="i"), KubernetesConfig("l")
    )
    mounted = [carrier.pod("c", "n", "p", SETTINGS, each) for each in (None, carrier.to_send("data/ann/x"))]
    return [start, kueue, plain, *mounted]


def of_the_operator() -> list[Any]:
    about = {"name": "mars", "namespace": "lab", "uid": "u"}
    found = RESOURCE.convert({"metadata": about, "spec": {"webHost": "mars.example.org"}})
    event = warning(MARS_JOB, found, "Rejected", "no", "2026-11-27T10:00:00Z")
    return [page.service(found, "j-1", "t", 7005), page.ingress(found), event, *crds()]


@cache
def sent() -> list[Any]:
    """What the double is asked to make: the Lease of an agent, its Secret, questions for rights, a pod on trial."""
    with TemporaryDirectory() as folder, doubled_pods(Path(folder)) as run:
        found = [each.body for each in run.server.asked if each.path.endswith("/leases")]
    with kubernetes_api() as server, closing(server.api()) as api:
        registry.provide(api, SETTINGS, node_labels("c", "n"), registry.RegistryLogin("ann", "secret"))
        assert rights.missing(api, SETTINGS) == []
        trial.try_pod(api, SETTINGS)
        found += [each.body for each in server.asked]
    return [each for each in found if each]


def all_bodies() -> list[Any]:
    return [*of_pods(), *of_the_operator(), *sent(), *rights.objects(SETTINGS), *rights.optional_objects()]
