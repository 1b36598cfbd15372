"""`POST /v1/plan` and what is said of a job at submission, over a real server; the test plays the master-agent."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from grass.errors import ManifestError, UnreachableError
from grass.wire.codec import encode as pack
from grass.wire.plan_answer import PlannedNode
from grass.wire.views import PlanEviction, PlanView
from tests.support.api_world import ApiWorld, api_world
from tests.support.waiting import wait_until

NODE = {
    "name": "n1",
    "state": "READY",
    "resources": {"cpu": 2000, "memory": 4 << 30, "gpu": 0},
    "labels": {"arch": "x86_64"},
    "runtimes": ["process"],
}


def job(name: str = "j", after: str = "", **component: Any) -> dict[str, Any]:
    document: dict[str, Any] = {"name": name, "components": {"w": {"command": "true", **component}}}
    return {**document, "after": after} if after else document


def planned(world: ApiWorld, document: dict[str, Any], user: str = "ann", **answer: Any) -> PlanView:
    asked = len(world.backend.stream(world.keys.tickets, "0", 100))
    with ThreadPoolExecutor(1) as pool:
        view = pool.submit(world.client(user).plan, document)
        wait_until(lambda: len(world.backend.stream(world.keys.tickets, "0", 100)) > asked)
        world.answer_plan(**answer)
        return view.result(10)


def test_the_answer_of_the_master_agent_is_passed_on_and_nothing_is_kept(world: ApiWorld) -> None:
    view = planned(world, job())
    assert view.components["w"].nodes == (PlannedNode("n1", 1, ((0, 500),)),)
    assert (view.name, view.warnings) == ("j", ())
    assert world.client().jobs(all=True) == []


def test_a_viewer_may_ask_too(world: ApiWorld) -> None:
    assert planned(world, job(), "eve").name == "j"


def test_jobs_of_others_that_would_be_stopped_have_no_name_but_for_those_who_see_them(world: ApiWorld) -> None:
    evictions = [{"job": "own", "user": "ann", "count": 1}, {"job": "secret", "user": "bob", "count": 2}]
    shown = (PlanEviction("own", 1), PlanEviction(None, 2))
    assert planned(world, job(), preemptions=evictions).evictions == shown
    assert [one.job for one in planned(world, job(), "root", preemptions=evictions).evictions] == ["own", "secret"]


def test_a_name_that_is_taken_is_said(world: ApiWorld) -> None:
    world.client().start(job())
    assert planned(world, job()).warnings == (
        "name: job j is active, so starting another one of this name would be refused now",
    )


def test_a_master_agent_that_is_away_is_unreachable(tmp_path: Path) -> None:
    with (
        api_world(tmp_path, preview=0.05) as world,
        pytest.raises(UnreachableError, match="the master-agent did not answer within"),
    ):
        world.client().plan(job())


def test_a_bad_file_is_refused_before_anything_is_asked(world: ApiWorld) -> None:
    with pytest.raises(ManifestError, match="replicas: must be at least 1"):
        world.client().plan(job(replicas=-1))
    assert world.backend.stream(world.keys.tickets, "0", 10) == []


def test_what_no_node_is_is_a_warning_and_strictly_an_error(world: ApiWorld) -> None:
    world.backend.apply([("HSET", world.keys.nodes, "n1", pack(NODE))])
    odd = job(where={"arch": "riscv"}, image="python:3.12")
    warnings = [
        "components.w.where.arch: no node has arch: riscv; nodes have x86_64",
        "components.w.image: no node has a container engine; its tasks run as processes",
    ]
    with pytest.raises(ManifestError) as caught:
        world.client().start(odd, strict=True)
    assert list(map(str, caught.value.problems)) == warnings
    assert world.client().jobs(all=True) == []
    started = world.client().start(odd)
    assert list(started.warnings) == warnings == list(world.client().job("j").warnings)


def test_a_job_of_a_batch_that_would_wait_for_what_waits_for_it_is_refused(world: ApiWorld) -> None:
    client = world.client()
    client.start(job("a", after="two"))
    batch = {"name": "s", "jobs": ["one", "two"], "after": "a", "components": {"w": {"command": "true"}}}
    with pytest.raises(ManifestError, match="after: jobs wait for each other in a cycle: two → a → two"):
        client.start_schedule(batch)
    assert [json.loads(fields["body"])["kind"] for _, fields in world.backend.stream(world.keys.tickets, "0", 9)] == [
        "start"
    ]


def test_jobs_that_would_wait_for_each_other_are_refused(world: ApiWorld) -> None:
    client = world.client()
    assert client.start(job("a", after="b")).warnings == ("after: job b does not exist yet; this job waits for it",)
    with pytest.raises(ManifestError, match="after: job c does not exist yet"):
        client.start(job("d", after="c"), strict=True)
    with pytest.raises(ManifestError, match="after: jobs wait for each other in a cycle: b → a → b"):
        client.start(job("b", after="a"))
    world.end_job(client.job("a").id)
    assert client.start(job("b", after="a")).warnings == ()
