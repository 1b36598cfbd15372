"""Pods that somebody else deletes while their tasks run, as a drain does: on a double of the API server."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from grass.kubernetes.objects import ANY
from grass.model.reasons import Reason, ReasonCode
from node.runtime.protocol import Stop
from tests.support.pod_double import DoubledPods, doubled_pods

KEY = "j-1/c.0/1"
CONDITION = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}


def delete(run: DoubledPods) -> None:
    with closing(run.server.api()) as somebody:
        somebody.delete(f"{run.server.path}/{run.name(KEY)}", ANY, {"gracePeriodSeconds": 30})


def test_a_running_task_whose_pod_somebody_deletes_is_told_before_it_ends(tmp_path: Path) -> None:
    with doubled_pods(tmp_path) as run:
        run.begin(KEY)
        delete(run)
        run.wait(lambda: run.known[KEY].leaving)
        told = [each.leaving for each in run.told if each.leaving is not None]
        assert told == [Reason(ReasonCode.EVICTED, "its pod was deleted by somebody else")]
        assert run.known[KEY].ended is None and not run.known[KEY].stopping
        run.server.end(run.name(KEY), 143)
        run.wait(lambda: run.known[KEY].ended)
        assert not run.known[KEY].stopping
        assert run.known[KEY].reason == Reason(ReasonCode.EVICTED, "its pod was deleted by somebody else")


def test_kubernetes_own_word_for_it_is_told(tmp_path: Path) -> None:
    with doubled_pods(tmp_path) as run:
        run.begin(KEY)
        [pod] = run.server.pods()
        run.server.objects[f"{run.server.path}/{run.name(KEY)}"]["spec"]["nodeName"] = "m1"
        run.server.say(run.name(KEY), {**pod["status"], "conditions": [CONDITION]})
        delete(run)
        run.wait(lambda: run.known[KEY].leaving)
        found = run.known[KEY].leaving
        assert found is not None and found.message == "it was evicted, as by a drain of its Kubernetes node"
        assert found.details == {"machine": "m1"}


def test_a_condition_without_a_deletion_takes_nothing_away(tmp_path: Path) -> None:
    with doubled_pods(tmp_path) as run:
        run.begin(KEY)
        status = run.server.pods()[0]["status"]
        run.server.say(run.name(KEY), {**status, "conditions": [CONDITION]})
        run.server.end(run.name(KEY), 0)
        run.wait(lambda: run.known[KEY].ended)
        assert [each.leaving for each in run.told if each.leaving] == []


def test_a_task_that_grass_stops_does_not_leave_by_itself(tmp_path: Path) -> None:
    with doubled_pods(tmp_path) as run:
        run.begin(KEY)
        run.runtime.stop([Stop(KEY, 5.0)])
        run.wait(lambda: "deletionTimestamp" in run.server.pods()[0]["metadata"])
        run.server.end(run.name(KEY), 143)
        run.wait(lambda: run.known[KEY].ended)
        assert [each.leaving for each in run.told if each.leaving] == []


@pytest.mark.parametrize("code", [0, 143])
def test_the_next_agent_does_not_take_a_foreign_deletion_for_its_own(tmp_path: Path, code: int) -> None:
    with doubled_pods(tmp_path) as run:
        run.begin(KEY)
        delete(run)
        run.restart()
        run.wait(lambda: run.known[KEY].leaving)
        run.server.end(run.name(KEY), code)
        run.wait(lambda: run.known[KEY].ended)
        reason = Reason(ReasonCode.EVICTED, "its pod was deleted by somebody else") if code else None
        assert (run.known[KEY].reason, run.known[KEY].stopping) == (reason, False)
