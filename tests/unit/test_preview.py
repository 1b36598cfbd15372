"""What would become of a job: the master-agent's answer to a ticket of kind ``plan``, which changes nothing."""

from __future__ import annotations

import json
from typing import Any

from grass.manifest import parse_job, read_document
from grass.wire.tickets import PlanJob
from master.planning.model import Plan, Snapshot
from tests.support.world import World


def preview(world: World, text: str, user: str = "ann") -> dict[str, Any]:
    job = parse_job(read_document(text)).job
    known = len(world.backend.stream(world.keys.plans, "0", 1000))
    before = kept(world)
    world.api.ticket(PlanJob("q", job, user))
    world.run()
    assert kept(world) == before
    answers = world.backend.stream(world.keys.plans, "0", 1000)[known:]
    [(_, fields)] = answers
    assert fields["question"] == "q"
    answer: dict[str, Any] = json.loads(fields["body"])
    return answer


def kept(world: World) -> list[Any]:
    keys, read = world.keys, world.backend.hgetall
    tables = (keys.specs, keys.jobs, keys.live, keys.names, keys.nodes)
    return [*(read(key) for key in tables), world.running(), len(world.cluster.jobs), list(world.cluster.queue)]


def where(answer: dict[str, Any], component: str) -> dict[str, int]:
    places = answer["components"][component]["nodes"]
    assert len({place["node"] for place in places}) == len(places)
    return {place["node"]: place["count"] for place in places}


def test_each_component_is_shown_where_it_would_go() -> None:
    world = World()
    world.add_node("n1", cpu=2)
    world.add_node("n2", cpu=3)
    answer = preview(world, "{name: a, components: {x: {command: c, replicas: 4}, y: {command: d, depends_on: [x]}}}")
    assert answer["reason"] is None and answer["preemptions"] == []
    assert sum(where(answer, "x").values()) == 4 and sum(where(answer, "y").values()) == 1
    assert answer["components"]["y"]["depends_on"] == {"x": "running"}


def test_what_would_find_no_place_has_its_reason() -> None:
    world = World()
    world.add_node("n1", cpu=2)
    world.submit(parse_job(read_document("{name: b, components: {x: {command: c}}}")).job)
    answer = preview(world, "{name: a, components: {x: {command: c, replicas: 3}}}")
    assert where(answer, "x") == {"n1": 1}
    assert answer["components"]["x"]["reason"]["code"] == "no-free-resources"
    huge = preview(world, "{name: a, components: {x: {command: c, resources: {cpu: 9}}}}")
    assert huge["components"]["x"]["reason"]["code"] == "too-large"


def test_a_task_that_pods_cannot_run_is_shown_elsewhere_and_why_not_there() -> None:
    world = World()
    world.add_node("n1", cpu=64, runtimes=["kubernetes"])
    world.add_node("n2", cpu=2, runtimes=["process", "docker"])
    assert where(preview(world, "{name: a, components: {x: {command: c, image: i, replicas: 60}}}"), "x")["n1"] > 50
    for what, why in (
        ("cwd: sub, image: i", "a relative `cwd` is in the share"),
        ("restart: never", "needs an image there"),
    ):
        text = f"{{name: a, components: {{x: {{command: c, replicas: 3, {what}}}}}}}"
        component = preview(world, text)["components"]["x"]
        assert [place["node"] for place in component["nodes"]] == ["n2"]
        assert f"n1: {why}" in component["reason"]["message"]
    huge = preview(world, "{name: a, components: {x: {command: c, image: i, cwd: sub, resources: {cpu: 9}}}}")
    assert huge["components"]["x"]["reason"]["code"] == "too-large"
    assert huge["components"]["x"]["reason"]["message"].startswith(
        "needs 9 cpu per task; the largest matching node has 2"
    )


def test_a_node_is_named_once_however_its_tasks_came_there() -> None:
    world = World()
    for name, cpu in (("n1", 8), ("n2", 16)):
        world.add_node(name, cpu=cpu)
    text = (
        "{name: a, place: {policy: single-metric-balanced, metric: cpu}, components: {x: {command: c, replicas: 12}}}"
    )
    answer = preview(world, text)
    assert where(answer, "x") == {"n1": 2, "n2": 10}


def test_devices_are_named_and_shares_of_them() -> None:
    world = World()
    world.add_node("n1", cpu=8, gpu=2)
    answer = preview(
        world,
        "{name: a, components: {x: {command: c, resources: {gpu: 1}}, "
        "y: {command: d, replicas: 2, resources: {gpu: 0.25}}}}",
    )
    [whole], [shared] = (answer["components"][name]["nodes"] for name in "xy")
    assert [share for _, share in whole["devices"]] == [1000]
    assert [share for _, share in shared["devices"]] == [500]
    assert whole["devices"][0][0] != shared["devices"][0][0]


def test_no_more_tasks_are_placed_than_may_run_at_once() -> None:
    world = World()
    world.add_node("n1", cpu=8)
    answer = preview(world, "{name: a, components: {x: {command: c, replicas: 5, parallelism: 2}}}")
    assert where(answer, "x") == {"n1": 2}
    assert (answer["components"]["x"]["replicas"], answer["components"]["x"]["at_once"]) == (5, 2)


def test_what_starts_only_after_others_have_succeeded_is_not_placed_beside_them() -> None:
    world = World()
    world.add_node("n1", cpu=1)
    text = (
        "{name: a, components: {x: {command: c}, y: {command: d, depends_on: {x: succeeded}}, "
        "z: {command: e, depends_on: [y]}}}"
    )
    answer = preview(world, text)
    assert where(answer, "x") == {"n1": 1}
    assert where(answer, "y") == where(answer, "z") == {}
    assert answer["components"]["z"]["reason"]["code"] == "depends-on"


def test_jobs_that_it_would_wait_for_are_named() -> None:
    world = World()
    world.add_node("n1", cpu=2)
    world.submit(parse_job(read_document("{name: b, components: {x: {command: c}}}")).job)
    text = "{name: a, after: [b], components: {x: {command: c}}}"
    answer = preview(world, text)
    assert answer["reason"]["code"] == "after" and where(answer, "x") == {"n1": 1}
    world.end("b-1/x.0/1", code=1)
    assert preview(world, text)["reason"]["code"] == "after-failed"
    for state in ("ended", "failed"):
        assert preview(world, text.replace("[b]", f"{{job: b, state: {state}}}"))["reason"] is None
    same = preview(world, text.replace("[b]", "{job: b, tasks: same}"))
    assert same["reason"] is None and where(same, "x") == {"n1": 1}
    assert preview(world, text.replace("[b]", "[nobody]"))["reason"]["code"] == "after"


def test_a_cluster_without_nodes_says_so() -> None:
    answer = preview(World(), "{name: a, components: {x: {command: c}}}")
    assert answer["components"]["x"]["reason"]["code"] == "no-nodes"


def test_quotas_count_for_the_user_who_asks() -> None:
    from dataclasses import replace

    world = World()
    world.limits = replace(world.limits, quotas={"bob": {"cpu": 1000}})
    world.add_node("n1", cpu=4)
    text = "{name: a, components: {x: {command: c, replicas: 2}}}"
    assert where(preview(world, text), "x") == {"n1": 2}
    bobs = preview(world, text, "bob")
    assert where(bobs, "x") == {"n1": 1} and bobs["components"]["x"]["reason"]["code"] == "quota"


def test_a_planner_that_fails_says_how() -> None:
    def fail(snapshot: Snapshot) -> Plan:
        raise KeyError("x")

    world = World()
    world.add_node("n1")
    world.decide = fail
    answer = preview(world, "{name: a, components: {x: {command: c}}}")
    assert answer["reason"]["code"] == "set-aside"
    assert answer["reason"]["message"].startswith("internal error while planning (KeyError: 'x'); ")
