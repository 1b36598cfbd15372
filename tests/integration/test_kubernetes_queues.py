"""Pods and gangs in queues of Kueue and Volcano, on a real API server whose definitions have the fields of theirs.

Neither of the two is here. In the place of Volcano's scheduler, ``Scheduler`` gives machines to whole gangs. Kueue
keeps pods back by scheduling gates, which a server of 1.20 does not have: it only takes the labels here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest

from grass.kubernetes.api import ApiServer, RefusedError
from grass.kubernetes.names import node_labels, pod_name
from grass.kubernetes.queues import groups_path, pod_group
from grass.model.namespace import QueueKind
from grass.model.reasons import ReasonCode
from node.runtime.kubernetes.runtime import PodRuntime
from node.runtime.protocol import Launch, Observed, Start, Stop, Waiting
from tests.support.engine import IMAGE
from tests.support.kubernetes import ANY
from tests.support.pod_run import SETTINGS, PodRun, pod_run
from tests.support.waiting import wait_until

CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GANG = Launch(
    ["/bin/sh", "-c", "exec sleep ${RUNS:-100}"],
    {},
    None,
    1.0,
    runtime="kubernetes",
    image=IMAGE,
    cpu=50,
    memory=32 << 20,
)
KEYS = ["j-1/t.0/1", "j-1/t.1/1"]
TEXT, NUMBER = {"type": "string"}, {"type": "integer", "format": "int32"}
POD_GROUP = {
    "minMember": NUMBER,
    "minResources": {
        "type": "object",
        "additionalProperties": {"anyOf": [{"type": "integer"}, TEXT], "x-kubernetes-int-or-string": True},
    },
    "minTaskMember": {"type": "object", "additionalProperties": NUMBER},
    "priorityClassName": TEXT,
    "queue": {**TEXT, "default": "default"},
}
"""Fields of the specification of Volcano's PodGroup, with their types. Others are dropped, as by its own definition."""


@contextmanager
def volcano(server: ApiServer) -> Iterator[None]:
    name = "podgroups.scheduling.volcano.sh"
    status = {"type": "object", "properties": {"phase": TEXT, "running": NUMBER}}
    properties = {"spec": {"type": "object", "properties": POD_GROUP}, "status": status}
    schema = {"openAPIV3Schema": {"type": "object", "properties": properties}}
    spec = {
        "group": "scheduling.volcano.sh",
        "scope": "Namespaced",
        "names": {"plural": "podgroups", "singular": "podgroup", "kind": "PodGroup", "listKind": "PodGroupList"},
        "versions": [{"name": "v1beta1", "served": True, "storage": True, "schema": schema}],
    }
    server.post(CRD, {"metadata": {"name": name}, "spec": spec}, ANY)
    try:
        wait_until(lambda: established(server, f"{CRD}/{name}"), 20, "the resource")
        yield
    finally:
        with suppress(RefusedError):
            server.delete(f"{CRD}/{name}", ANY)


def established(server: ApiServer, path: str) -> bool:
    conditions = server.get(path, ANY).get("status", {}).get("conditions") or []
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


class Agent:
    """A runtime, and what it has told."""

    def __init__(self, runtime: PodRuntime) -> None:
        self.runtime = runtime
        self.waiting: dict[str, ReasonCode] = {}
        self.running: set[str] = set()
        self.ended: list[str] = []
        self.listed = False

    def until(self, condition: Any, seconds: float = 20.0) -> None:
        def met() -> object:
            for event in self.runtime.receive():
                self.listed = self.listed or not isinstance(event, (Observed, Waiting))
                if isinstance(event, Waiting):
                    self.waiting[event.key] = event.reason.code
                elif isinstance(event, Observed) and event.ended is not None:
                    self.running.discard(event.key)
                    self.ended = [*dict.fromkeys([*self.ended, event.key])]  # it may be told again
                elif isinstance(event, Observed) and event.since is not None and event.key not in self.ended:
                    self.running.add(event.key)
            return condition()

        wait_until(met, seconds)


class Scheduler:
    """What Volcano's scheduler does: a gang gets machines once all of its pods are there, and its queue is open."""

    def __init__(self, run: PodRun) -> None:
        self._run = run
        self.open = {"other"}
        """Queues."""

    def turn(self) -> None:
        server, place = self._run.server, self._run.place
        groups = {each["metadata"]["name"]: each for each in server.get(groups_path(place.namespace), ANY)["items"]}
        pods = server.get(place.path, ANY)["items"]
        for pod in pods:
            name, gang = pod["metadata"]["name"], _group_of(pod)
            alone = {"minMember": 1, "queue": pod["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"]}
            group = groups[gang]["spec"] if gang else alone
            there = sum(_group_of(each) == gang for each in pods)
            if group["queue"] in self.open and there >= group["minMember"] and "nodeName" not in pod["spec"]:
                target = {"apiVersion": "v1", "kind": "Node", "name": "real1"}
                server.post(f"{place.path}/{name}/binding", {"metadata": {"name": name}, "target": target}, ANY)


def _group_of(pod: Any) -> str:
    return str(pod["metadata"]["annotations"].get("scheduling.k8s.io/group-name", ""))


@pytest.mark.nightly
def test_a_gang_in_a_queue_of_volcano_has_one_group_which_goes_with_its_last_pod() -> None:
    """Nobody schedules these pods."""
    with pod_run() as run, volcano(run.server):
        run.settings = replace(SETTINGS, queue="team", queue_kind=QueueKind.VOLCANO)
        run.runtime.close()
        groups = groups_path(run.place.namespace)
        run.server.post(groups, _left(run), ANY)
        first = _started(run, KEYS)
        first.until(lambda: set(first.waiting.values()) == {ReasonCode.NAMESPACE_QUEUE} and len(first.waiting) == 2)
        [group] = wait_for_groups(run, first, 1)
        assert group["spec"] == {"minMember": 2, "queue": "team"}
        pods = run.server.get(run.place.path, ANY)["items"]
        names = {each["metadata"]["annotations"]["scheduling.k8s.io/group-name"] for each in pods}
        assert names == {group["metadata"]["name"]} and {each["spec"]["schedulerName"] for each in pods} == {"volcano"}
        first.runtime.close()
        second = _started(run, KEYS)  # a new agent knows the group
        second.until(lambda: second.listed and len(second.waiting) == 2)
        assert wait_for_groups(run, second, 1) == [group]
        second.runtime.stop([Stop(key, 0.0) for key in KEYS])
        second.until(lambda: set(second.ended) == set(KEYS), 40)
        assert wait_for_groups(run, second, 0) == []
        run.runtime = second.runtime


def _left(run: PodRun) -> dict[str, Any]:
    return dict(pod_group(run.settings, "g-left", 1, node_labels(run.place.cluster, run.place.node)))


def _started(run: PodRun, keys: list[str], **env: str) -> Agent:
    agent = Agent(run.open(tombstone=0.0))
    agent.until(lambda: agent.listed)
    agent.runtime.define({"j-1/t": GANG._replace(gang=2)})
    agent.runtime.start([Start(key, "j-1/t", env) for key in keys])
    return agent


def wait_for_groups(run: PodRun, agent: Agent, count: int) -> list[Any]:
    path = groups_path(run.place.namespace)
    agent.until(lambda: len(run.server.get(path, ANY)["items"]) == count)
    found: list[Any] = run.server.get(path, ANY)["items"]
    return found


@pytest.mark.nightly
@pytest.mark.timeout(180)
def test_volcano_lets_a_gang_go_whole_and_a_task_that_starts_again_by_itself() -> None:
    with pod_run() as run, volcano(run.server):
        run.settings = replace(SETTINGS, queue="team", queue_kind=QueueKind.VOLCANO)
        run.runtime.close()
        scheduler, again = Scheduler(run), "j-1/t.0/2"
        agent = _started(run, KEYS[:1], RUNS="1")

        def until(condition: Any, seconds: float = 45.0) -> None:
            def met() -> object:
                scheduler.turn()
                return condition()

            agent.until(met, seconds)

        until(lambda: agent.waiting.keys() == set(KEYS[:1]))
        agent.runtime.start([Start(KEYS[1], "j-1/t", {})])
        until(lambda: len(agent.waiting) == 2)
        assert set(agent.waiting.values()) == {ReasonCode.NAMESPACE_QUEUE} and not agent.running
        scheduler.open.add("team")
        until(lambda: agent.ended == KEYS[:1] and agent.running == set(KEYS[1:]))
        agent.runtime.forget(KEYS[:1])
        agent.runtime.start([Start(again, "j-1/t", {"RUNS": "1"})])
        until(lambda: agent.ended == [KEYS[0], again])
        name = pod_name(run.place.cluster, again)
        assert not _group_of(run.server.get(f"{run.place.path}/{name}", ANY))
        agent.runtime.stop([Stop(KEYS[1], 0.0)])
        until(lambda: len(agent.ended) == 3)
        assert wait_for_groups(run, agent, 0) == []
        run.runtime = agent.runtime


@pytest.mark.nightly
def test_a_server_takes_the_labels_of_kueue_and_its_finalizer_keeps_a_pod_that_grass_forgot() -> None:
    """Kueue has a finalizer on each pod. It is not Grass's to take away."""
    with pod_run() as run:
        run.settings = replace(SETTINGS, queue="team", queue_kind=QueueKind.KUEUE)
        run.runtime.close()
        agent = _started(run, KEYS, RUNS="1")
        run.runtime = agent.runtime
        agent.until(lambda: len(run.server.get(run.place.path, ANY)["items"]) == 2)
        pods = run.server.get(run.place.path, ANY)["items"]
        for each in pods:
            assert each["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team"
            assert each["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-total-count"] == "2"
            assert each["metadata"]["annotations"]["kueue.x-k8s.io/retriable-in-group"] == "false"
        assert len({each["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"] for each in pods}) == 1
        held = f"{run.place.path}/{pods[0]['metadata']['name']}"
        run.server.patch(held, {"metadata": {"finalizers": ["kueue.x-k8s.io/managed"]}}, ANY)
        agent.until(lambda: set(agent.ended) == set(KEYS), 40)
        agent.runtime.forget(KEYS)
        left = ["kueue.x-k8s.io/managed"]
        agent.until(lambda: run.server.get(held, ANY)["metadata"]["finalizers"] == left)
        agent.until(lambda: len(run.server.get(run.place.path, ANY)["items"]) == 1)
