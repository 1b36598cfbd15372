"""Tasks that work together in pods of a real 1.20: addresses, ranks, and memberships that change while they run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from grass.api.client import Client
from grass.wire.job_views import OperationView
from grass.wire.membership import MEMBERSHIP, Membership
from tests.integration.test_kubernetes_node import Node
from tests.support import kubernetes, python_image
from tests.support.engine import IMAGE
from tests.support.local_cluster import LocalCluster
from tests.support.python_image import IMAGE as PYTHON
from tests.support.waiting import wait_until

SECONDS = 75.0
"""The most that one or two pods, one after the other, take to start beside other tests."""
pytestmark = pytest.mark.timeout(170)
WATCH = """
import os, sys, time
sys.path.insert(0, os.environ["GRASS_LIBRARY"] + "/python")
from grass_membership import Api
api, seen = Api(), -1
while True:
    try:
        world = api.world(seen, 20)
    except OSError:
        time.sleep(0.1)
        continue
    if world["generation"] != seen and all(each["address"] for each in world["members"]):
        print(len(world["members"]), "members", os.environ["GRASS_TOKEN"])
    if world["released"]:
        print("released")
        sys.exit(0)
    seen = world["generation"]
"""
SHOW = (  # prints each new membership
    'last=; while :; do now=$(cat $GRASS_MEMBERSHIP); [ "$now" = "$last" ] || echo "$now"; last=$now; sleep 0.1; done'
)
SERVE = "while :; do nc -l -p $GRASS_PORT_P -e echo $GRASS_TASK; done"


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with kubernetes.namespace() as (server, namespace), LocalCluster().running() as cluster:
        made = Node(cluster, server, namespace)
        made.add("pods")
        yield made


@pytest.fixture
def client(node: Node) -> Iterator[Client]:
    with node.cluster.client() as client:
        yield client


def component(command: str, **more: Any) -> dict[str, Any]:
    plain = {"image": IMAGE, "command": command, "runtime": "kubernetes", "resources": {"cpu": 0.01, "memory": "16MiB"}}
    return {**plain, **more}


def texts(client: Client, name: str, task: str | None = None) -> list[str]:
    return sorted(line.text for line in client.logs(name, task))


def memberships(client: Client, task: str) -> list[Membership]:
    """Return what a task of ``SHOW`` has printed."""
    found = (line.text for line in client.logs("elastic", task) if line.text.startswith("{"))
    return [MEMBERSHIP.decode(text) for text in found]


def done(client: Client, operation: OperationView) -> str:
    ended = client.wait_for_operation(operation.job_id, operation.id, SECONDS)
    return ended.outcome.value if ended.outcome else ""


def addresses(node: Node, job: str) -> set[str]:
    return {each["status"].get("podIP", "") for each in node.pods(job)}


@pytest.mark.nightly
def test_pods_of_torch_know_the_address_of_the_first_and_reach_it(node: Node, client: Client) -> None:
    # `-e`: nc ends when the other side shuts down, even if it has not sent yet what it reads from a pipe
    command = (
        'if [ $RANK = 0 ]; then nc -l -p $MASTER_PORT -e echo "hello of $RANK of $WORLD_SIZE"; else '
        "until nc $MASTER_ADDR $MASTER_PORT 2>/dev/null; do sleep 0.2; done; fi"
    )
    client.start({"name": "ranks", "components": {"w": component(command, replicas=2, framework="torch")}})
    assert client.wait("ranks", SECONDS).state == "SUCCEEDED"
    assert texts(client, "ranks") == ["hello of 0 of 2"]


@pytest.mark.nightly
def test_pods_find_the_ports_of_another_component(node: Node, client: Client) -> None:
    # the server speaks to one at a time, and a second caller may get nothing
    said_once = 'until said=$(nc $host $port) && [ "$said" ]; do sleep 0.2; done; echo "$name says $said at $host"'
    ask = f"read -r name host port label < $GRASS_ADDRESSES; {said_once}"
    parts = {
        "server": component(SERVE, ports=["p"], ready={"port": "p"}, grace=0),
        "user": component(ask, depends_on={"server": "ready"}, replicas=2),
    }
    client.start({"name": "ports", "success": ["user"], "components": parts})
    assert client.wait("ports", SECONDS).state == "SUCCEEDED"
    said = [line for line in texts(client, "ports") if "says" in line]
    assert len(said) == 2 and all(
        re.fullmatch(r"ports.server.0 says ports.server.0 at 10\.\d+\.\d+\.\d+", x) for x in said
    )


@pytest.mark.nightly
def test_an_elastic_job_in_pods_grows_shrinks_replaces_suspends_and_survives_its_agent(
    node: Node, client: Client
) -> None:
    worker = component(SHOW, replicas=2, min=1, max=4, grace=0)
    client.start({"name": "elastic", "components": {"w": worker}})
    wait_until(lambda: complete(client, 2), SECONDS)
    assert {each.address for each in last(client, "w.0")} == addresses(node, "elastic")
    assert done(client, client.scale("elastic", "w", 3)) == "DONE"
    wait_until(lambda: complete(client, 3), SECONDS)
    node.kill_agent()
    assert done(client, client.scale("elastic", "w", 2)) == "DONE"
    wait_until(lambda: complete(client, 2), SECONDS)
    assert done(client, client.replace("elastic", "w.1")) == "DONE"
    wait_until(lambda: [each.attempt for each in last(client, "w.0")] == [1, 2], SECONDS)
    wait_until(lambda: complete(client, 2), SECONDS)
    assert done(client, client.suspend("elastic")) == "DONE"
    client.resume("elastic")
    wait_until(lambda: [each.attempt for each in last(client, "w.0")] == [2, 3], SECONDS)
    client.stop("elastic")
    assert client.wait("elastic", SECONDS).state == "STOPPED"


@pytest.mark.nightly
def test_drains_by_grass_and_by_kubernetes_are_operations_of_an_elastic_job(node: Node, client: Client) -> None:
    # it hears TERM, and goes on until its grace is over
    worker = component(f"trap '' TERM; {SHOW}", replicas=2, min=1, max=4, grace=20)
    client.start({"name": "elastic", "components": {"w": worker}})
    wait_until(lambda: complete(client, 2), SECONDS)
    [machine] = [each["metadata"]["name"] for each in node.server.get("/api/v1/nodes", kubernetes.ANY)["items"]]
    pod = next(each["metadata"] for each in node.pods("elastic") if "/w.1/" in str(each["metadata"]["annotations"]))
    body = {"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": pod["name"]}}
    kubernetes.kubectl("cordon", machine)
    try:
        wait_until(lambda: closed(client) == "cordoned in Kubernetes", SECONDS)
        node.server.post(f"{node.path}/pods/{pod['name']}/eviction", body, kubernetes.ANY)
        wait_until(lambda: complete(client, 1), 15, "the others go on while the pod has its grace")
        assert [each.state for each in client.tasks("elastic")] == ["RUNNING", "RUNNING"]
    finally:
        kubernetes.kubectl("uncordon", machine)
    [drain] = [each for each in client.operations("elastic") if each.kind == "drain"]
    assert (drain.author, drain.added) == ("grass", ("w.1",))
    assert drain.reason.endswith(f"; machine {machine} takes no pods (cordoned in Kubernetes)"), drain.reason
    assert done(client, drain) == "DONE"
    wait_until(lambda: [each.attempt for each in last(client, "w.0")] == [1, 2], SECONDS)
    assert [each.restarts for each in client.tasks("elastic")] == [0, 0]
    client.drain("pods", 0.0)
    wait_until(lambda: client.node("pods").state == "DRAINED", SECONDS)
    wait_until(lambda: all("deletionTimestamp" in each["metadata"] for each in node.pods("elastic")), 30)
    assert {each.state for each in client.tasks("elastic")} == {"PENDING"}
    client.uncordon("pods")
    [mine] = [each for each in client.operations("elastic") if each.kind == "drain" and each.author != "grass"]
    assert (done(client, mine), mine.added) == ("DONE", ("w.0", "w.1"))
    wait_until(lambda: [each.attempt for each in last(client, "w.0")] == [2, 3], SECONDS)
    client.stop("elastic")
    assert client.wait("elastic", SECONDS).state == "STOPPED"


def closed(client: Client) -> str:
    """Return why pods do not go to the machine."""
    found = client.node("pods").machines
    return found.machines[0].closed if found is not None else ""


def with_python(program: str, framework: str, **more: Any) -> dict[str, Any]:
    """Return a component whose tasks use the membership API. Their interpreter needs more than a shell."""
    kubernetes.provide(PYTHON, python_image.image_files)
    made = component(program, image=PYTHON, framework=framework, replicas=2, grace=1, **more)
    return {**made, "resources": {"cpu": 0.2, "memory": "64MiB"}}


@pytest.mark.nightly
def test_the_membership_api_reaches_pods_that_come_and_go(node: Node, client: Client) -> None:
    worker = with_python(f"exec python3 -uc '{WATCH}'", "torchrun", min=1, max=4)
    client.start({"name": "api", "components": {"w": worker}})
    wait_until(lambda: "2 members of-the-pod" in texts(client, "api", "w.1"), SECONDS)
    assert done(client, client.scale("api", "w", 3)) == "DONE"
    wait_until(lambda: "3 members of-the-pod" in texts(client, "api", "w.1"), SECONDS)
    assert done(client, client.scale("api", "w", remove=["w.0"])) == "DONE"
    wait_until(lambda: texts(client, "api", "w.1").count("2 members of-the-pod") == 2, SECONDS)
    assert "released" in texts(client, "api", "w.0")
    client.stop("api")
    assert client.wait("api", SECONDS).state == "STOPPED"


@pytest.mark.nightly
def test_a_launcher_runs_commands_in_other_pods(node: Node, client: Client) -> None:
    launch = (
        "if [ $GRASS_INDEX = 1 ]; then until [ -e $GRASS_SCRATCH/x ]; do sleep 0.1; done; sleep 2; exit 0; fi; "
        "until [ -S $GRASS_API ]; do sleep 0.1; done; cat $GRASS_HOSTS; "
        "python3 /usr/local/bin/ssh -n w-1-1 'echo I am $GRASS_TASK; : > $GRASS_SCRATCH/x; exit 7'; echo code $?"
    )
    client.start({"name": "launch", "components": {"w": with_python(launch, "openmpi")}})
    assert client.wait("launch", SECONDS).state == "SUCCEEDED"
    assert texts(client, "launch") == ["I am launch.w.1", "code 7", "w-0-1 slots=1", "w-1-1 slots=1"]


def complete(client: Client, size: int) -> bool:
    """Return whether the first task knows the addresses of so many members."""
    members = last(client, "w.0")
    return len(members) == size and all(each.address for each in members)


def last(client: Client, task: str) -> tuple[Any, ...]:
    found = memberships(client, task)
    return found[-1].members if found else ()
