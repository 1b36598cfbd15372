"""Random lives of a cluster: whatever happens, the memory stays whole and every job comes to an end."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from grass.model.ending import Clean, Ending, Enough, JobRestart
from grass.model.job import After, AfterState, Component, Condition, Job, Restart, RestartOn
from grass.model.lifecycle import JobState
from grass.model.reasons import ReasonCode
from grass.model.resources import Resources
from master.agent.step import Limits
from tests.support.examples import examples
from tests.support.said import report
from tests.support.world import CALM, World

SHAPES = [Resources(500), Resources(1000), Resources(2000, 1 << 30), Resources(0), Resources(1000, 0, 1000)]
SHAPES += [Resources(0, 0, 250), Resources(500, 0, 500), Resources(500, custom=(("licences", 1),))]
OFTEN = ["cut", "heal", "takeover", "stop", "reboot"]
OF_NODES = ["cordon", "uncordon", "drain", "drain", "remove", "join", "obstinate", "busy"]
FOR_EVER = {ReasonCode.AFTER, ReasonCode.GANG, ReasonCode.TOO_LARGE, ReasonCode.QUOTA}
"""Why a job may wait until somebody does something: what it needs is not in this cluster."""


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
    gang = () if any(part.depends_on for part in components.values()) or dice.random() < 0.7 else tuple(names)
    if gang:
        components = {name: replace(part, parallelism=None) for name, part in components.items()}
    after = (After(f"job{dice.randrange(25)}", dice.choice(list(AfterState))),) if dice.random() < 0.15 else ()
    if after and len(names) == 1 and not gang and dice.random() < 0.7:
        after = (After(after[0].job, same_tasks=True),)
    return Job(
        f"job{number}",
        components,
        tuple(names),
        fail_fast=dice.random() < 0.5,
        priority=dice.choice([0, 0, 0, 5]),
        preemptible=dice.random() < 0.5,
        gang=gang,
        after=tuple(each for each in after if each.job != f"job{number}"),
        ending=random_ending(dice, names),
    )


def random_ending(dice: random.Random, names: list[str]) -> Ending:
    """Return how a job ends; half of the jobs as ever."""
    if dice.random() < 0.5:
        return Ending()
    enough = {name: dice.choice([Enough.ANY, Enough.INDEX0]) for name in names if dice.random() < 0.3}
    restart = JobRestart(dice.randint(0, 2), dice.choice([0.0, 2.0]))
    return Ending(dice.choice(list(Clean)), deadline=dice.choice([None, 60.0]), restart=restart, enough=enough)


def ended(view: dict[str, Any]) -> bool:
    return JobState(view["state"]).ended


def live(world: World) -> set[str]:
    return {view["name"] for view in world.jobs() if not ended(view)}


def anything(world: World, dice: random.Random, number: int) -> None:
    """One event of a cluster's life."""
    event = dice.choice([*["submit"] * 6, *["end"] * 9, *["advance"] * 3, *OFTEN * 2, *OF_NODES])
    if event in OF_NODES:
        of_nodes(world, dice, event)
    else:
        of_jobs(world, dice, number, event)


def of_nodes(world: World, dice: random.Random, event: str) -> None:
    node = dice.choice(list(world.nodes.values()))
    match event:
        case "cordon" | "uncordon":
            world.ticket(f"node-{event}", node=node.name)
        case "drain":
            world.ticket("node-drain", node=node.name, deadline=dice.choice([None, 0.0, 30.0]))
        case "remove":
            world.ticket("node-remove", node=node.name, force=dice.random() < 0.5)
        case "join":
            join(world)
        case "obstinate":
            node.obstinate = not node.obstinate
        case "busy":
            node.busy = {0: "carol"} if dice.random() < 0.5 else {}


def join(world: World) -> None:
    """Every node that has left comes again, with nothing on it."""
    for name, node in world.nodes.items():
        if name not in world.cluster.nodes:
            node.running.clear()
            node.ended.clear()
            node.connected = False  # the agent that was there before is gone
            world.ticket("node-join", name=name, digest="0" * 64)
            node.connected = True
            node.about["probe"] = {"passed": True, "checks": []}
            node.hello()
            world.run()


def of_jobs(world: World, dice: random.Random, number: int, event: str) -> None:
    match event:
        case "submit":
            world.submit(random_job(dice, number), user=dice.choice(["ann", "bob"]))
        case "end" if world.running():
            code = dice.choice([0, 0, 0, 1, 64, 65])
            node = dice.choice([n for n in world.nodes.values() if n.running])
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
            view = world.job(dice.choice(sorted(live(world))))
            assert view is not None
            world.ticket("stop", id=view["id"], grace=None)
        case "reboot":
            node = dice.choice(list(world.nodes.values()))
            node.connected = True
            reason = {"code": "node-rebooted", "message": "rebooted", "details": {}}
            gone = list(node.running)
            node.hello("boot-2")
            events = [node.end(key, world.wall, code=None, reason=reason) for key in gone]
            node.store.report([report("tasks", {"events": events})])
            world.run()


def heal(world: World) -> None:
    for node in world.nodes.values():
        if not node.connected:
            node.connected = True
            node.hello()
    world.run()


def restore(world: World) -> None:
    """Everything that somebody did to the nodes is undone."""
    heal(world)
    join(world)
    for node in world.nodes.values():
        node.obstinate, node.busy = False, {}
        world.ticket("node-uncordon", node=node.name)
    world.advance(2)


@examples(60)
@given(st.integers(0, 2**32))
def test_every_job_comes_to_an_end_whatever_happens(seed: int) -> None:
    dice = random.Random(seed)
    quota = dice.choice([{}, {"cpu": 3000}])
    world = World(Limits(parallel_level=dice.choice([None, 2]), default_quota=quota), seed)
    world.compares = False  # it takes over at random anyway
    world.add_node("n1", cpu=2, gpu=1)
    world.add_node("n2", cpu=4, custom=(("licences", 2),))
    for number in range(25):
        anything(world, dice, number)
    restore(world)
    for _ in range(400):
        stuck = [view for view in world.jobs() if not ended(view) and hopeless(view)]
        for view in stuck if not world.running() else ():
            world.ticket("stop", id=view["id"], grace=None)
        if not live(world):
            break
        for key in world.running():
            if key in world.running():
                world.end(key, code=0)
        world.advance(70, CALM)
    waiting = [view for view in world.jobs() if not ended(view)]
    assert not waiting, waiting
    assert not world.running()
    assert all(not entries for entries in (node.desired for node in world.nodes.values()))


def hopeless(view: dict[str, Any]) -> bool:
    """With nothing running, it waits for what will not come by itself. A gang that waits behind itself is one that fits
    in a way that the planner, which is greedy, does not find."""
    reasons = [part["reason"] for part in view["components"].values() if part["reason"]]
    codes = {ReasonCode(reason["code"]) for reason in reasons}
    return bool(codes & FOR_EVER) or any(reason["details"].get("job") == view["id"] for reason in reasons)


def change(world: World, dice: random.Random, number: int) -> None:
    """A user changes a job, which may have ended."""
    jobs = world.jobs()
    if not jobs:
        return
    job_id = dice.choice(jobs)["id"]
    match kind := dice.choice(["hold", "release", "delete", "set", "suspend", "resume", "restart"]):
        case "hold" | "release" | "delete":
            world.ticket(kind, id=job_id)
        case "set":
            settings = {"priority": dice.choice([None, 0, 3, 7]), "timeout": dice.choice([None, 0, 5.0, 50.0])}
            world.ticket(kind, id=job_id, settings={**settings, "parallelism": {}})
        case _:
            world.ticket(kind, job_id=job_id, id=f"o{number}")


def states(world: World) -> dict[str, tuple[str, dict[str, int]]]:
    return {view["id"]: (view["state"], view["counts"]) for view in world.jobs()}


@examples(100, derandomize=True)
@given(st.integers(0, 2**32))
def test_what_arrives_in_one_round_leaves_nothing_to_plan(seed: int) -> None:
    """The lives are the same in every run. In one of some hundred, the planner, which is greedy, places more when it is
    asked again, because its own placements have changed the order of users."""
    dice = random.Random(seed)
    world = World(Limits(parallel_level=dice.choice([None, 2]), default_quota=dice.choice([{}, {"cpu": 3000}])), seed)
    world.compares = False  # it takes over at random anyway
    world.add_node("n1", cpu=2, gpu=1)
    world.add_node("n2", cpu=4, custom=(("licences", 2),))
    for number in range(0, 30, 3):
        with world.one_round():
            for each in range(number, number + dice.randint(1, 3)):
                dice.choice([anything, anything, change])(world, dice, each)
        before = states(world)
        world.plan_again()
        assert states(world) == before


def test_an_attempt_is_never_started_twice_even_when_reports_are_repeated() -> None:
    world = World()
    node = world.add_node("n1", cpu=1)
    job_id = world.submit(Job("j", {"t": Component("t", "x", replicas=2)}, ("t",), fail_fast=False))
    event = node.end(f"{job_id}/t.0/1", world.wall)
    for _ in range(3):
        node.store.report([report("tasks", {"events": [event]})])
        world.run()
    assert world.running() == [f"{job_id}/t.1/1"]
    world.end(f"{job_id}/t.1/1")
    assert world.job("j")["state"] == "SUCCEEDED"
