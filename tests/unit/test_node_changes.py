"""What the master-agent writes and tells of nodes: who drains them, what checks found, what is lost with them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from grass.model.job import After, Component, Job
from grass.model.resources import Resources
from grass.wire.checks import NodeCheck, NodeVerdict
from grass.wire.codec import builtins
from master.agent.changes import Changes
from master.agent.planner_snapshot import refresh, snapshot_of
from tests.support.world import World


def job(name: str = "j") -> Job:
    return Job(name, {"t": Component("t", "x", resources=Resources(1000))}, ("t",))


def told(world: World, *kinds: str) -> list[tuple[Any, ...]]:
    """Return kind, user and address of the events of these kinds."""
    found = [event for event in world.events() if event["kind"] in kinds]
    return [(event["kind"], event.get("user", ""), event.get("address", "")) for event in found]


@pytest.mark.parametrize(
    "name",
    [
        *("tasks", "jobs", "operations", "nodes", "schedules", "removed_schedules", "desired", "events", "removed"),
        *("left", "usage", "kept_files", "logs_dropped"),
    ],
)
def test_a_round_with_one_kind_of_change_has_something_to_write(name: str) -> None:
    changes = Changes()
    assert not changes
    setattr(changes, name, ["something"])
    assert changes


def test_the_states_of_a_drain_name_who_asked_for_it_from_where_and_other_states_name_nobody() -> None:
    world = World()
    world.add_node("n1")
    world.ticket("node-drain", node="n1", user="bob", address="10.0.0.7")
    world.nodes["n1"].connected = False
    world.advance(world.limits.silent_after + 2, step=5.0)
    assert told(world, "node-draining", "node-drained", "node-silent", "node-ready") == [
        ("node-ready", "", ""),
        ("node-draining", "bob", "10.0.0.7"),
        ("node-drained", "bob", "10.0.0.7"),
        ("node-silent", "", ""),
    ]


def test_a_node_that_is_to_be_removed_is_emptied_by_the_deadline_of_the_drain_before() -> None:
    world = World()
    world.add_node("n1")
    world.submit(job())
    world.ticket("node-drain", node="n1", deadline=30.0)
    world.ticket("node-remove", node="n1")
    world.advance(29, step=5.0)
    assert world.running() == ["j-1/t.0/1"]
    world.advance(2)
    assert world.running() == [] and not world.node_views()


def test_the_tasks_of_a_removed_node_are_placed_elsewhere_at_once() -> None:
    world = World()
    world.add_node("n1")
    world.submit(job())
    world.add_node("n2")
    world.ticket("node-remove", node="n1", force=True)
    assert list(world.nodes["n2"].running) == ["j-1/t.0/2"]


def test_the_reason_of_a_lost_node_names_it() -> None:
    world = World()
    world.add_node("n1")
    world.nodes["n1"].connected = False
    world.advance(world.limits.lost_after + 5, step=5.0)
    [node] = world.node_views()
    assert (node["state"], node["reason"]["details"]) == ("LOST", {"node": "n1"})


def test_what_a_check_found_is_told_with_what_it_saw_between_nodes() -> None:
    world = World()
    world.add_node("n1")
    found = NodeVerdict("n1", "bad", "link", ("it is slow",))
    check = NodeCheck(at=world.wall, user="bob", level=2, verdict=found, between=("n1 – n2: 1 GB/s",))
    world.ticket("node-checked", node="n1", user="bob", check=builtins(check))
    [event] = [each for each in world.events() if each["kind"] == "node-checked"]
    assert event["message"] == "node n1: checked at level 2; bad (link): it is slow · n1 – n2: 1 GB/s"
    assert (event["user"], event["node"]) == ("bob", "n1")


def test_what_a_user_has_used_decays_when_no_task_of_the_user_runs() -> None:
    world = World()
    world.add_node("n1")
    world.submit(job())
    world.advance(60, step=5.0)
    world.end("j-1/t.0/1")
    world.advance(5)
    used = world.cluster.usage["ann"]
    assert world.store.load().usage["ann"].value == pytest.approx(used, rel=0.01)
    world.advance(world.limits.usage_half_life, step=world.limits.usage_half_life / 4)
    assert world.cluster.usage["ann"] == pytest.approx(used / 2, rel=0.01)


@pytest.mark.parametrize("stopped", [False, True])
def test_a_job_that_waits_no_more_for_another_is_forgotten_by_it(stopped: bool) -> None:
    world = World()
    world.add_node("n1")
    world.submit(job())
    world.submit(replace(job("k"), after=(After("j"),)))
    assert world.cluster.followers == {"j": {"k-1"}}
    if stopped:
        world.ticket("stop", id="k-1")
    world.end("j-1/t.0/1")
    assert world.job("k")["state"] == ("STOPPED" if stopped else "RUNNING")
    assert not any(world.cluster.followers.values())


def test_the_planner_is_told_in_how_many_seconds_a_task_must_have_ended() -> None:
    world = World()
    world.add_node("n1")
    world.submit(replace(job(), timeout=100.0))
    world.advance(30, step=5.0)
    step = world.step()
    refresh(step)
    assert [each.ends for each in snapshot_of(step, []).allocations] == [70.0]
