"""Random lives of a cluster: whatever happens, the memory stays whole and every job comes to an end."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from grass.model.job import Component, Condition, Job, Restart, RestartOn
from grass.model.resources import Resources
from grass.store.api_store import ended
from master.agent.step import Limits
from tests.support.world import World

SHAPES = [Resources(500), Resources(1000), Resources(2000, 1 << 30), Resources(0), Resources(1000, 0, 1)]


def random_job(dice: random.Random, number: int) -> Job:
    names = ["a", "b", "c"][: dice.randint(1, 3)]
    components = {}
    for position, name in enumerate(names):
        before = names[:position]
        depends = (
            {dice.choice(before): dice.choice([Condition.RUNNING, Condition.SUCCEEDED])}
            if before and dice.random() < 0.5
            else {}
        )
        components[name] = Component(
            name,
            "x",
            replicas=dice.randint(1, 4),
            resources=dice.choice(SHAPES),
            ports=("p",) if dice.random() < 0.3 else (),
            depends_on=depends,
            restart=Restart(dice.choice(list(RestartOn)), dice.randint(0, 2), 1.0),
            parallelism=dice.choice([None, None, 1]),
        )
    return Job(f"job{number}", components, tuple(names), fail_fast=dice.random() < 0.5)


def live(world: World) -> set[str]:
    return {view["name"] for view in world.api.jobs() if not ended(view)}


def anything(world: World, dice: random.Random, number: int) -> None:
    """One event of a cluster's life."""
    match dice.choice(
        ["submit", "submit", "end", "end", "end", "advance", "cut", "heal", "takeover", "stop", "reboot"]
    ):
        case "submit":
            world.submit(random_job(dice, number))
        case "end" if world.running():
            code = dice.choice([0, 0, 0, 1, 64, 65])
            node = next(n for n in world.nodes.values() if n.running)
            key = dice.choice(sorted(node.running))
            if node.connected:
                world.end(key, code=code)
        case "advance":
            world.advance(dice.choice([1.0, 5.0, 20.0, 320.0]))
        case "cut":
            dice.choice(list(world.nodes.values())).connected = False
        case "heal":
            heal(world)
        case "takeover":
            world.takeover()
        case "stop" if live(world):
            view = world.api.job(dice.choice(sorted(live(world))))
            assert view is not None
            world.api.ticket("stop", {"id": view["id"], "user": "ann", "grace": None})
            world.run()
        case "reboot":
            node = dice.choice(list(world.nodes.values()))
            node.connected = True
            reason = {"code": "node-rebooted", "message": "rebooted", "details": {}}
            gone = list(node.running)
            node.hello("boot-2")
            node.store.report(
                [("tasks", {"events": [node.end(key, world.wall, code=None, reason=reason) for key in gone]})]
            )
            world.run()


def heal(world: World) -> None:
    for node in world.nodes.values():
        if not node.connected:
            node.connected = True
            node.hello()
    world.run()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_every_job_comes_to_an_end_whatever_happens(seed: int) -> None:
    dice = random.Random(seed)
    world = World(Limits(parallel_level=dice.choice([None, 2])), seed)
    world.add_node("n1", cpu=2, gpu=1)
    world.add_node("n2", cpu=4)
    for number in range(25):
        anything(world, dice, number)
    heal(world)
    for _ in range(400):
        if not live(world):
            break
        for key in world.running():
            if key in world.running():
                world.end(key, code=0)
        world.advance(70)
    waiting = [view for view in world.api.jobs() if not ended(view)]
    assert not waiting, waiting
    assert not world.running()
    assert all(not entries for entries in (node.desired for node in world.nodes.values()))


def test_an_attempt_is_never_started_twice_even_when_reports_are_repeated() -> None:
    world = World()
    node = world.add_node("n1", cpu=1)
    job_id = world.submit(Job("j", {"t": Component("t", "x", replicas=2)}, ("t",), fail_fast=False))
    event = node.end(f"{job_id}/t.0/1", world.wall)
    for _ in range(3):
        node.store.report([("tasks", {"events": [event]})])
        world.run()
    assert world.running() == [f"{job_id}/t.1/1"]
    world.end(f"{job_id}/t.1/1")
    assert world.job("j")["state"] == "SUCCEEDED"
