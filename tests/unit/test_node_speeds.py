"""Speeds of nodes: what checks and steps say of them, how they fade, and what the planner makes of them."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from msgspec import structs

from grass.checks.slowness import OTHERS
from grass.checks.speed import HALF_LIFE, Stepped, beside_others, by_steps, rated, with_check, with_steps
from grass.cli.check_text import speed_fact
from grass.cli.job_text import component_row
from grass.cli.why import page
from grass.model.job import Component, Job, Policy
from grass.model.resources import Resources
from grass.wire.checks import NodeCheck, NodeVerdict
from grass.wire.codec import builtins
from grass.wire.node_speed import NodeSpeed
from master.agent.node_speeds import FADES_EVERY
from master.api.why import why_view
from master.planning.decide import decide
from master.planning.model import Demand, Node, Placement, QueuedJob, Shape, Snapshot
from tests.support.examples import chosen
from tests.support.planner_worlds import random_view
from tests.support.world import World

CORE = Shape(Resources(1000))
TWO = "Some CPU numpy"


def check(node: str, at: float, level: int = 1, model: str = TWO, busy: float = 0.0, **times: float) -> NodeCheck:
    named = {name.replace("_", " "): seconds for name, seconds in times.items()}
    return NodeCheck(
        at=at,
        user="ann",
        level=level,
        verdict=NodeVerdict(node, "good"),
        times=named,
        figures={OTHERS: busy},
        model=model,
    )  # type: ignore[arg-type]


# what is measured


def test_a_check_is_kept_by_its_slowest_device_and_without_what_pairs_measured() -> None:
    found = with_check(None, check("a", 5.0, matrix_gpu0=0.1, matrix_gpu1=0.3, copy_gpu0=0.2, pair=9.0))
    assert found == NodeSpeed(check_at=5.0, model=TWO, times={"matrix": 0.3, "copy": 0.2})


@pytest.mark.parametrize(
    "said", [check("a", 5.0, level=0, matrix=1.0), check("a", 5.0, busy=60.0, matrix=1.0), check("a", 5.0, model="")]
)
def test_a_check_without_level_1_or_beside_other_programs_says_nothing(said: NodeCheck) -> None:
    known = NodeSpeed(check_at=1.0, times={"matrix": 2.0})
    assert with_check(known, said) is known and with_check(None, said) is None


def test_a_node_is_as_fast_as_its_slowest_measurement_beside_nodes_of_its_model() -> None:
    speeds = {
        name: NodeSpeed(model=model, times={"matrix": matrix, "copy": copy})
        for name, model, matrix, copy in (
            *(("a", "x", 0.1, 1.0), ("b", "x", 0.1, 1.0), ("c", "x", 0.2, 1.0), ("d", "x", 0.1, 4.0)),
            *(("e", "y", 0.01, 0.01), ("f", "y", 0.005, 0.01)),
        )
    }
    found = beside_others(speeds, {"x"})
    assert {name: each.check for name, each in found.items()} == {"a": 1.0, "b": 1.0, "c": 0.5, "d": 0.25}
    assert beside_others({**speeds, **found}, {"x"}) == {}, "nothing has changed"
    assert {name: each.check for name, each in beside_others(speeds, {"y"}).items()} == {"e": 0.5, "f": 1.0}


def test_steps_are_smoothed_bounded_and_fade() -> None:
    first = with_steps(None, 0.6, 0.0)
    assert (first.steps, rated(first, 0.0).value) == (0.6, 0.6)
    assert with_steps(first, 1.0, 0.0).steps == 0.8
    assert with_steps(None, 1e-9, 0.0).steps == 0.1 and with_steps(None, 1e9, 0.0).steps == 3.0
    assert rated(first, HALF_LIFE).value == 0.8 and rated(first, 100 * HALF_LIFE).value == 1.0
    both = replace_check(first, 0.5)
    assert rated(both, 0.0).value == 0.5, "a gang waits for the slower part"
    assert rated(NodeSpeed(), 7.0).value == 1.0


def replace_check(speed: NodeSpeed, check: float) -> NodeSpeed:
    return structs.replace(speed, check=check, check_at=0.0)


def test_steps_are_compared_between_nodes_that_are_alike() -> None:
    slow = [Stepped(node, "A100", seconds) for node, seconds in (("a", 1.0), ("b", 1.0), ("c", 2.0))]
    other = [Stepped(node, "T4", seconds) for node, seconds in (("d", 8.0), ("d", 8.0), ("e", 6.0))]
    assert by_steps([*slow, *other]) == {"a": 1.0, "b": 1.0, "c": 0.5, "d": 1.0, "e": 8 / 6}


@pytest.mark.parametrize(
    "members",
    [
        [("a", 1.0), ("b", 2.0)],  # of two, nobody knows which one is slow
        [("a", 1.0), ("a", 1.0), ("a", 2.0)],  # one node
        [("a", 1.0), ("b", 1.01), ("c", 1.02)],  # they wait for one another
    ],
)
def test_steps_that_cannot_tell_say_nothing(members: list[tuple[str, float]]) -> None:
    assert by_steps(Stepped(node, "", seconds) for node, seconds in members) == {}


# the planner


def node(name: str, speed: float = 1.0, cores: int = 4, **more: object) -> Node:
    total = Resources(cores * 1000, 8)
    return Node(name, total, total, speed=speed, **more)  # type: ignore[arg-type]


def gang(count: int, shape: Shape = CORE, **more: object) -> Snapshot:
    """Return a queue with one gang."""
    demand = Demand("w", count, shape, gang=True)
    return Snapshot((), [QueuedJob("j", "ann", 1, (demand,), **more)])  # type: ignore[arg-type]


def places(snapshot: Snapshot) -> dict[str, int]:
    found = Counter[str]()
    for each in decide(snapshot).placements:
        found[each.node] += each.count
    return dict(found)


@pytest.mark.parametrize("others", [0, 40])  # few nodes are ranked one by one, many with arrays
def test_a_gang_prefers_faster_nodes_and_the_plan_says_so(others: int) -> None:
    more = [node(f"x{number:02}", 0.5, cores=1) for number in range(others)]
    nodes = [node("n1", 1.0, cores=8), node("n2", 0.6, cores=4), node("n3", 1.1, cores=9), *more]
    plan = decide(replace(gang(12), nodes=nodes))
    assert {each.node: each.count for each in plan.placements} == {"n1": 3, "n3": 9}
    preferred = plan.preferred["j", "w"]
    assert preferred.nodes == ("n1", "n3")
    assert preferred.slower == ((("n2", 0.6),) if not others else tuple((f"x{number:02}", 0.5) for number in range(4)))


def test_other_tasks_and_other_policies_go_where_they_always_do() -> None:
    nodes = [node("n1", 1.0, cores=8), node("n2", 0.6, cores=4)]
    alone = QueuedJob("j", "ann", 1, (Demand("w", 1, CORE),))
    assert places(Snapshot(nodes, [alone])) == {"n2": 1}
    assert places(replace(gang(1), nodes=nodes)) == {"n1": 1}
    balanced = replace(gang(1, policy=Policy.COMPACTED), nodes=nodes)
    assert places(balanced) == {"n2": 1} and not decide(balanced).preferred


def test_a_gang_takes_slow_nodes_if_it_needs_them_and_nothing_is_said() -> None:
    plan = decide(replace(gang(8), nodes=[node("n1"), node("n2", 0.3)]))
    assert {each.node for each in plan.placements} == {"n1", "n2"} and not plan.preferred


def test_a_gang_that_would_not_fit_on_the_fastest_nodes_first_starts_as_always() -> None:
    """With ``v`` on the fast node, ``w`` would not fit any more, in either order of the components."""
    sizes = {"n1": (6000, 1.0), "n2": (4000, 0.5), "n3": (1000, 0.5)}
    nodes = [Node(name, Resources(cpu, 6), Resources(cpu, 6), speed=speed) for name, (cpu, speed) in sizes.items()]
    demands = (
        Demand("v", 1, Shape(Resources(3000, 4)), gang=True),
        Demand("w", 2, Shape(Resources(3000, 3)), gang=True),
    )
    plan = decide(Snapshot(nodes, [QueuedJob("j", "ann", 1, demands)]))
    assert {(each.component, each.node): each.count for each in plan.placements} == {("v", "n2"): 1, ("w", "n1"): 2}
    assert not plan.preferred


def test_a_node_that_must_not_run_it_is_not_called_slower() -> None:
    nodes = [node("n1"), node("n2", 0.5, closed="draining"), node("n3", 0.5, cores=0), node("n4", 0.96)]
    assert not decide(replace(gang(1), nodes=nodes)).preferred


@pytest.mark.parametrize("seed", range(chosen(240)))
def test_a_gang_starts_with_speeds_exactly_if_it_starts_without(seed: int) -> None:
    view, dice = random_view(seed), random.Random(seed)
    for job in view.queue[:3]:
        demands = tuple(replace(each, gang=True) for each in job.demands)
        one = replace(view, queue=[replace(job, demands=demands)])
        with_speeds = [replace(each, speed=dice.choice([0.4, 0.8, 1.0, 1.3])) for each in view.nodes]
        neutral, plan = decide(one), decide(replace(one, nodes=with_speeds))
        assert sized(plan.placements) >= sized(neutral.placements), "it would wait because of speeds"
        assert not neutral.preferred
        for key, preferred in plan.preferred.items():
            there = {each.name: each for each in with_speeds}
            assert max(speed for _, speed in preferred.slower) < min(there[name].speed for name in preferred.nodes)
            assert {each.node for each in plan.placements if each.component == key[1]} == {*preferred.nodes}


def sized(placements: list[Placement]) -> int:
    return sum(each.count for each in placements)


# the master-agent


def measured(world: World, **matrix: float) -> None:
    for name, seconds in matrix.items():
        world.ticket("node-checked", node=name, check=builtins(check(name, world.wall, matrix=seconds)))
    world.advance(6)


def speeds(world: World) -> dict[str, float]:
    return {each["name"]: (each["speed"] or {}).get("value", 1.0) for each in world.node_views()}


def training(replicas: int, name: str = "train") -> Job:
    part = Component("w", "x", replicas=replicas, resources=Resources(1000))
    return Job(name, {"w": part}, ("w",), gang=("w",))


def test_a_gang_goes_to_nodes_that_checks_found_faster_and_why_says_it() -> None:
    world = World()
    for name in ("n1", "n2", "n3"):
        world.add_node(name, cpu=1)
    measured(world, n1=1.0, n2=1 / 0.6, n3=1.0)
    assert speeds(world) == {"n1": 1.0, "n2": 0.6, "n3": 1.0}
    world.takeover()  # a new master-agent knows it
    job_id = world.submit(training(2))
    assert {task["node"] for task in world.tasks(job_id).values()} == {"n1", "n3"}
    text = "placed on n1, n3: measured faster than n2 (0.6 x)"
    record = world.api.job("train")
    assert record is not None and record.components["w"].placed == text
    assert f"w: {text}" in page(why_view(record, training(2), ()), None)
    assert text in component_row("w", record.components["w"])
    world.takeover()
    assert world.job("train")["components"]["w"]["placed"] == text
    again = world.submit(training(1, "other"))
    assert [task["node"] for task in world.tasks(again).values()] == ["n2"], "it does not wait for a faster one"
    assert world.job("other")["components"]["w"]["placed"] == ""


def test_what_was_said_of_a_placement_ends_with_the_next_one() -> None:
    world = World()
    for name in ("n1", "n2"):
        world.add_node(name, cpu=1)
    measured(world, n1=2.0, n2=1.0)
    world.submit(training(1))
    assert world.job("train")["components"]["w"]["placed"] == "placed on n2: measured faster than n1 (0.5 x)"
    world.ticket("node-cordon", node="n2")
    world.ticket("suspend", job_id="train-1", id="1")
    world.advance(5)
    world.ticket("resume", job_id="train-1", id="2")
    world.advance(5)
    assert world.tasks("train-1")["w.0"]["node"] == "n1" and world.job("train")["components"]["w"]["placed"] == ""


def test_steps_of_tasks_count_and_fade_with_the_days() -> None:
    world = World()
    for name in ("n1", "n2"):
        world.add_node(name, cpu=1)
    world.ticket("step-speeds", nodes={"n2": 0.6, "gone": 0.1})
    assert speeds(world) == {"n1": 1.0, "n2": 0.6}
    world.advance(HALF_LIFE + FADES_EVERY, 3600.0)
    assert speeds(world)["n2"] == 0.8


def test_a_node_that_has_other_devices_counts_as_not_measured() -> None:
    world = World()
    node = world.add_node("n1", gpu=1, model="A100")
    world.ticket("step-speeds", nodes={"n1": 0.6})
    node.hello()
    world.run()
    assert speeds(world) == {"n1": 0.6}, "the same devices"
    node.devices[0]["name"] = "H100"
    node.hello()
    world.run()
    assert speeds(world) == {"n1": 1.0}


# what is shown


def test_the_page_of_a_node_says_how_its_speed_is_known() -> None:
    assert speed_fact(None, 0.0) == speed_fact(NodeSpeed(times={"matrix": 1.0}), 0.0) == ""
    both = NodeSpeed(value=0.6, check=0.62, check_at=0.0, steps=0.9, steps_at=3300.0)
    assert speed_fact(both, 3600.0) == (
        "0.6 x the median of nodes like it (level 1: 0.62 x, 1h ago; steps of tasks: 0.90 x, 5m ago)"
    )
