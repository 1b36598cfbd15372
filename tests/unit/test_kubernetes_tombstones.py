"""Pods whose end the master has noted, and an agent that is started again: on a double of the API server."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from grass.kubernetes import names
from grass.kubernetes.names import FINALIZER, NOTED
from grass.kubernetes.objects import ANY
from node.runtime.kubernetes.removal import sweep
from tests.support.pod_double import DoubledPods, doubled_pods

KEY = "j-1/c.0/1"


def end(run: DoubledPods) -> None:
    run.begin(KEY)
    run.server.end(run.name(KEY), 0)
    run.wait(lambda: run.known[KEY].ended is not None)


def forget(run: DoubledPods) -> None:
    run.runtime.forget([KEY])
    run.wait(lambda: "deletionTimestamp" in run.server.pods()[0]["metadata"])


def test_a_tombstone_is_no_attempt_of_the_next_agent_and_goes_in_time(tmp_path: Path) -> None:
    with doubled_pods(tmp_path) as run:
        end(run)
        forget(run)
        [pod] = run.server.pods()
        assert pod["metadata"]["finalizers"] == [FINALIZER]
        run.restart(tombstone=2.0)
        assert not run.told
        run.wait(lambda: not run.server.pods())
        assert not run.told


def test_the_time_of_a_tombstone_does_not_begin_again_with_each_agent(tmp_path: Path) -> None:
    with doubled_pods(tmp_path) as run:
        end(run)
        forget(run)
        [pod] = run.server.pods()
        first = pod["metadata"]["annotations"][NOTED]
        pod["metadata"]["annotations"][NOTED] = str(int(first) - 60)
        run.server.objects[f"{run.server.path}/{run.name(KEY)}"] = pod
        run.restart()
        run.wait(lambda: not run.server.pods(), 10)


def test_an_end_that_nobody_has_noted_is_told_by_the_next_agent(tmp_path: Path) -> None:
    with doubled_pods(tmp_path) as run:
        end(run)
        with closing(run.server.api()) as somebody:
            somebody.delete(f"{run.server.path}/{run.name(KEY)}", ANY)
        run.restart()
        run.wait(lambda: KEY in run.known and run.known[KEY].ended is not None)
        assert run.known[KEY].code == 0
        forget(run)


def test_a_pod_that_somebody_put_in_the_place_of_a_tombstone_is_left_alone(tmp_path: Path) -> None:
    with doubled_pods(tmp_path) as run:
        end(run)
        run.restart(tombstone=1.0)
        run.wait(lambda: run.known.get(KEY) is not None and run.known[KEY].ended is not None)
        forget(run)
        path = f"{run.server.path}/{run.name(KEY)}"
        other = {"metadata": {**run.server.objects[path]["metadata"], "uid": "another"}}
        run.server.objects[path] = other
        run.wait(
            lambda: any(
                each.method == "PATCH" and "uid" in each.body["metadata"] and "$delete" in str(each.body)
                for each in run.server.asked
            )
        )
        run.wait(lambda: not run.runtime._removal._released)
        assert run.server.objects[path] == other


def test_a_sweep_leaves_no_complaint_about_a_pod_that_ends_and_has_no_finalizer(tmp_path: Path) -> None:
    with doubled_pods(tmp_path) as run, closing(run.server.api()) as api:
        end(run)
        labels = names.node_labels(run.place.cluster, run.place.node)
        api.post(run.server.path, {"metadata": {"name": "files", "labels": labels}, "spec": {"nodeName": "m1"}}, ANY)
        sweep(api, run.place, remove=True)
        assert [each["metadata"]["name"] for each in run.server.pods()] == ["files"]
