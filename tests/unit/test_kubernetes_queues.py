"""Queues of Kueue and Volcano: which of them there is, what a pod says for it, and the groups of gangs."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from grass.errors import InputError
from grass.kubernetes.names import GANG, node_labels
from grass.kubernetes.queues import groups_path, has_groups, kind_of, pod_group, queue_of
from grass.kubernetes.rights import rules
from grass.model.namespace import QueueKind
from grass.model.runtime import RuntimeName
from grass.node_config import KubernetesConfig
from grass.provision.namespaces import check_object_names
from node.runtime.kubernetes.gangs import Gangs
from node.runtime.kubernetes.place import Place
from node.runtime.kubernetes.pods import pod
from node.runtime.kubernetes.runtime import PodRuntime
from node.runtime.protocol import Launch, Listed, Start
from tests.doubles.kubernetes_api import Asked, RefusalError, kubernetes_api
from tests.support.waiting import wait_until

KUEUE, VOLCANO = "kueue.x-k8s.io", "scheduling.volcano.sh"
LAUNCH = Launch(["true"], {}, None, 1.0, runtime=RuntimeName.KUBERNETES, image="i:1", gang=3)


def settings(kind: str = "", queue: str | None = "team") -> KubernetesConfig:
    return KubernetesConfig("lab", queue=queue, queue_kind=kind)


def made(kind: str, group: str = "") -> dict[str, Any]:
    return pod("home", "n1", Start("j-1/t.0/1", "j-1/t", {}), LAUNCH, settings(kind), {}, group)


@pytest.mark.parametrize(
    ("text", "found"),
    [("team", ("", "team")), ("kueue/team", ("kueue", "team")), ("volcano/a.b", ("volcano", "a.b"))],
)
def test_a_queue_is_named_with_or_without_whose_it_is(text: str, found: tuple[str, str]) -> None:
    assert queue_of(text) == found


@pytest.mark.parametrize("text", ["slurm/team", "/team", "kueue/volcano/team"])
def test_another_kind_of_queue_is_refused(text: str) -> None:
    if text == "/team":
        assert queue_of(text) == ("", "team")
        return
    with pytest.raises(InputError, match="unknown kind"):
        queue_of(text)


@pytest.mark.parametrize("name", ["", "A", "a/b", "../x", "a b"])
def test_what_is_no_name_of_a_queue_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="--queue"):
        check_object_names(settings(queue=name))


@pytest.mark.parametrize(
    ("kind", "groups", "found"),
    [
        ("", {KUEUE, "apps"}, QueueKind.KUEUE),
        ("", {VOLCANO}, QueueKind.VOLCANO),
        ("volcano", {VOLCANO, KUEUE}, QueueKind.VOLCANO),
    ],
)
def test_the_queue_is_that_of_which_the_server_has_resources(kind: str, groups: set[str], found: QueueKind) -> None:
    assert kind_of(settings(kind), groups) is found
    assert kind_of(settings(kind, None), groups) is None


@pytest.mark.parametrize(
    ("kind", "groups", "said"),
    [
        ("", {"apps"}, "neither Kueue nor Volcano"),
        ("", {KUEUE, VOLCANO}, "say kueue/team or volcano/team"),
        ("kueue", {VOLCANO}, "does not have kueue"),
    ],
)
def test_a_queue_that_is_not_there_or_not_clear_is_refused(kind: str, groups: set[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        kind_of(settings(kind), groups)


def test_kueue_gets_its_label_and_the_size_of_a_gang() -> None:
    alone, gang = made("kueue"), made("kueue", "g-1")
    assert alone["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team"
    assert not any("pod-group" in name for name in (*alone["metadata"]["labels"], *alone["metadata"]["annotations"]))
    assert gang["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"] == "g-1"
    assert gang["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-total-count"] == "3"
    assert gang["metadata"]["annotations"]["kueue.x-k8s.io/retriable-in-group"] == "false"
    assert "schedulerName" not in gang["spec"] and gang["metadata"]["annotations"][GANG] == "g-1"
    assert not has_groups(settings("kueue"))


def test_volcano_schedules_its_pods_and_a_gang_has_a_group() -> None:
    alone, gang = made("volcano"), made("volcano", "g-1")
    assert alone["spec"]["schedulerName"] == gang["spec"]["schedulerName"] == "volcano"
    assert alone["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"] == "team"
    assert "scheduling.k8s.io/group-name" not in alone["metadata"]["annotations"]
    assert gang["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == "g-1"
    body: dict[str, Any] = pod_group(settings("volcano"), "g-1", 3, {"a": "b"})
    assert body["spec"] == {"minMember": 3, "queue": "team"} and body["metadata"]["labels"]["a"] == "b"
    assert groups_path("lab") == "/apis/scheduling.volcano.sh/v1beta1/namespaces/lab/podgroups"


def test_without_a_queue_a_pod_says_nothing_of_one() -> None:
    body = pod("home", "n1", Start("j-1/t.0/1", "j-1/t", {}), LAUNCH, KubernetesConfig("lab"), {}, "g-1")
    assert "kueue" not in str(body) and "volcano" not in str(body)
    assert body["metadata"]["annotations"][GANG] == "g-1"


def test_the_right_on_groups_is_asked_for_unless_the_queue_is_kueues() -> None:
    for kind, asked in (("", True), ("volcano", True), ("kueue", False)):
        assert ("podgroups" in {rule.resource for rule in rules(settings(kind))}) is asked
    assert "podgroups" not in {rule.resource for rule in rules(settings(queue=None))}


def test_tasks_of_a_gang_are_in_one_group_until_the_last_has_ended() -> None:
    gangs = Gangs("home")
    one = gangs.join("j-1/t.0/1")
    assert gangs.join("j-1/t.1/1") == gangs.join("j-1/t.0/1") == one
    assert gangs.join("j-2/t.0/1") != one
    assert gangs.leave("j-1/t.0/1") == ""
    assert gangs.join("j-1/t.0/2") == one  # it starts again while the other runs
    assert gangs.leave("j-1/t.1/1") == "" and gangs.leave("j-1/t.0/1") == ""
    assert gangs.leave("j-1/t.0/2") == one
    assert gangs.leave("j-1/t.0/2") == gangs.leave("x-1/t.0/1") == ""
    assert gangs.join("j-1/t.0/3") != one  # placed anew


def test_where_no_replacement_is_taken_a_task_that_starts_again_is_of_no_group() -> None:
    gangs = Gangs("home")
    first = [gangs.join(f"j-1/t.{index}/1", most=2) for index in (0, 1)]
    assert first[0] == first[1] and gangs.join("j-1/t.0/1", most=2) == first[0]
    gangs.leave("j-1/t.0/1")
    assert gangs.join("j-1/t.0/2", most=1) == gangs.leave("j-1/t.0/2") == ""
    assert gangs.leave("j-1/t.1/1") == first[0]
    assert gangs.join("j-1/t.0/3", most=2) not in ("", first[0])  # placed anew


def test_a_new_agent_finds_the_group_in_a_pod() -> None:
    gangs = Gangs("home")
    assert gangs.join("j-1/t.0/1", "g-old") == gangs.join("j-1/t.1/1") == "g-old"
    assert gangs.names() == {"g-old"}


def test_groups_that_are_made_while_old_ones_cannot_be_listed_stay(tmp_path: Path) -> None:
    groups, refusals = groups_path("lab"), [RefusalError(503, "ServiceUnavailable")] * 2

    def busy(asked: Asked) -> None:
        if asked.method == "GET" and asked.path == groups and refusals:
            raise refusals.pop()

    with kubernetes_api() as server:
        server.refuse = busy
        place = Place("c1", "n1", "lab", str(tmp_path / "attempts"), str(tmp_path / "jobs"))
        own = node_labels(place.cluster, place.node)
        server.tell(groups, "g-left", {"metadata": {"name": "g-left", "labels": own}})
        with closing(PodRuntime(server.api(), place, settings("volcano"))) as runtime:
            wait_until(lambda: any(isinstance(each, Listed) for each in runtime.receive()), 20)
            runtime.define({"j-1/t": LAUNCH})
            runtime.start([Start("j-1/t.0/1", "j-1/t", {})])

            def left() -> set[str]:
                runtime.receive()
                return {path for path in list(server.objects) if path.startswith(groups)}

            wait_until(lambda: left() and server.pods(), 20)
            wait_until(lambda: f"{groups}/g-left" not in left(), 20)
            [group] = left()
            [made] = server.pods()
            assert group == f"{groups}/{made['metadata']['annotations'][GANG]}"
