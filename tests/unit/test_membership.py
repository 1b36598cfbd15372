"""Nodes that come and go: their redis users, their keys, and what a new master-agent finds of them."""

from __future__ import annotations

import pytest

from grass.model.job import Component, Job
from grass.model.resources import DEVICE, Resources
from grass.store.node_store import NodeStore, Revoked
from master.agent.step import Limits
from tests.support.world import World

DIGEST = "a" * 64


def joined(world: World, name: str) -> None:
    node = world.add_node(name, joins=True, probe={"passed": True, "checks": []})
    world.ticket("node-join", name=name, digest=DIGEST)
    node.hello()
    world.run()


def test_a_node_that_joins_has_a_user_before_it_has_a_record_and_one_that_leaves_has_neither() -> None:
    world = World()
    joined(world, "n1")
    assert world.accounts.digests == {"n1": DIGEST}
    world.submit(Job("j", {"t": Component("t", "x")}, ("t",)))
    assert world.backend.hgetall(world.keys.desired("n1"))
    world.ticket("node-remove", node="n1", force=True)
    assert world.accounts.digests == {} and world.node_views() == []
    for key in world.keys.of_node("n1"):
        assert not world.backend.hgetall(key) and world.backend.newest(key) is None, key
    (removed,) = NodeStore(world.backend, world.keys, "n2").changes("0-0", 0)[1]
    assert isinstance(removed, Revoked) and removed.nodes == {"n1": pytest.approx(world.wall, abs=1)}
    assert world.job("j")["counts"] == {"PENDING": 1}
    world.takeover()
    joined(world, "n1")
    assert world.running() == ["j-1/t.0/2"]
    assert world.job("j")["restarts"] == 0


def test_events_of_a_changed_node_say_who_asked_and_from_where_also_after_a_takeover() -> None:
    world = World()
    joined(world, "n1")
    world.submit(Job("j", {"t": Component("t", "x")}, ("t",)))
    for kind, address in (
        ("cordon", "10.0.0.1"),
        ("uncordon", "10.0.0.2"),
        ("drain", "10.0.0.3"),
        ("remove", "10.0.0.4"),
    ):
        world.ticket(f"node-{kind}", node="n1", address=address)
    world.takeover()
    world.ticket("stop", id="j-1", user="bob", address="10.0.0.5")
    said = {event["kind"]: (event["user"], event.get("address")) for event in world.events() if event.get("user")}
    expected = {"cordoned": "10.0.0.1", "uncordoned": "10.0.0.2", "drain": "10.0.0.3", "removed": "10.0.0.4"}
    expected["draining"] = expected["drain"]
    assert {kind: said[f"node-{kind}"] for kind in expected} == {kind: ("ann", at) for kind, at in expected.items()}


@pytest.mark.parametrize(("name", "digest"), [("n 1", DIGEST), ("n1", "no digest"), ("*", DIGEST), ("n1", "")])
def test_what_cannot_become_a_redis_user_does_not_join(name: str, digest: str) -> None:
    world = World()
    world.ticket("node-join", name=name, digest=digest)
    assert world.accounts.digests == {} and world.node_views() == []
    assert [event["kind"] for event in world.events()] == ["node-refused"]


def test_two_machines_of_one_name_are_not_one_node_and_the_first_may_come_again() -> None:
    world = World()
    for digest in (DIGEST, "b" * 64, DIGEST):
        world.ticket("node-join", name="n1", digest=digest)
    assert world.accounts.digests == {"n1": DIGEST}
    assert [node["state"] for node in world.node_views()] == ["JOINING"]
    assert [event["kind"] for event in world.events()] == ["node-joining", "node-refused", "node-joining"]


def test_what_users_have_had_is_written_every_few_seconds_and_fades() -> None:
    world = World()
    world.add_node("n1")
    job_id = world.submit(Job("j", {"t": Component("t", "x")}, ("t",)))
    world.advance(60)
    assert world.cluster.usage["ann"] == pytest.approx(30, rel=0.1)
    world.takeover()
    assert world.cluster.usage["ann"] == pytest.approx(30, rel=0.1)
    world.end(f"{job_id}/t.0/1")
    world.advance(20)
    world.now += 86400
    world.takeover()
    assert world.cluster.usage["ann"] == pytest.approx(16, rel=0.1)


def test_what_a_user_has_had_halves_in_each_half_life_while_the_master_agent_runs() -> None:
    world = World(Limits(usage_half_life=60.0))
    world.add_node("n1")
    world.cluster.usage["ann"] = 80.0
    world.advance(60)
    assert world.cluster.usage["ann"] == pytest.approx(40, rel=0.01)
    world.advance(120)
    assert world.cluster.usage["ann"] == pytest.approx(10, rel=0.01)


def test_a_user_has_the_largest_share_of_any_one_resource() -> None:
    world = World()
    world.add_node("n1", cpu=4, memory=4 << 30)
    world.add_node("n2", cpu=4, memory=4 << 30)
    for user, needs in (("ann", Resources(1000, 4 << 30)), ("bob", Resources(2000, 1 << 30))):
        world.submit(Job(user, {"t": Component("t", "x", resources=needs)}, ("t",)), user=user)
    world.advance(60)
    assert world.cluster.usage == {"ann": pytest.approx(30, rel=0.1), "bob": pytest.approx(15, rel=0.1)}


@pytest.mark.parametrize("closing", ["cordon", "drain"])
def test_a_job_gets_the_turn_that_was_kept_for_one_whose_only_node_is_closed(closing: str) -> None:
    world = World(Limits(parallel_level=2))
    world.add_node("n1", cpu=1, gpu=1)
    world.add_node("n2", cpu=1)
    device = Component("t", "x", resources=Resources(gpu=DEVICE))
    for name, part in (("holds", device), ("waits", device), ("next", Component("t", "x", resources=Resources()))):
        world.submit(Job(name, {"t": part}, ("t",)))
    assert world.running() == ["holds-1/t.0/1"]
    world.ticket(f"node-{closing}", node="n1")
    assert world.running() == ["holds-1/t.0/1", "next-1/t.0/1"]
