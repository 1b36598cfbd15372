"""What one round of the master-agent bears, so that no ticket waits long for its turn."""

from __future__ import annotations

from grass.model.job import Component, Job
from grass.model.resources import Resources
from master.agent.step import ASSIGNED_AT_ONCE, Step
from tests.support.world import World


def array(replicas: int, **more: object) -> Job:
    component = Component("t", "x", replicas=replicas, resources=Resources(cpu=10))
    return Job("j", {"t": component}, ("t",), **more)  # type: ignore[arg-type]


def one_round(world: World) -> Step:
    step = world.step()
    world.round(step)
    return step


def submitted(world: World, job: Job) -> None:
    world.api.submit(job, job_id="j-1", user="ann", now=world.wall, warnings=[], request_id="r")


def test_a_wide_job_gets_its_places_in_several_rounds_even_on_one_node() -> None:
    world = World()
    world.add_node("n1", cpu=64)
    submitted(world, array(1200))
    assert [len(one_round(world).changes.tasks) for _ in range(4)] == [500, 500, 200, 0]
    world.run()
    assert world.job("j")["counts"] == {"RUNNING": 1200}


def test_a_gang_is_placed_in_one_round_however_wide_it_is() -> None:
    world = World()
    world.add_node("n1", cpu=64)
    submitted(world, array(1200, gang=("t",)))
    assert len(one_round(world).changes.tasks) == 1200


def test_the_backlogs_of_many_nodes_are_filled_in_several_rounds_and_a_ticket_is_taken_between_them() -> None:
    world = World()
    nodes = [world.add_node(f"n{number}", cpu=0.1) for number in range(9)]
    submitted(world, array(2000))
    world.round()
    for node in nodes:
        node.pump(world.wall)
        ended = [node.end(key, world.wall, started=world.wall) for key in list(node.running)]
        node.store.report([("tasks", {"events": ended})])
    step = one_round(world)
    assert sum(len(order.set) for order in step.changes.orders.values()) == ASSIGNED_AT_ONCE
    world.api.ticket("stop", {"id": "j-1", "user": "ann", "grace": None})
    assert world.agenda.wait(world.now, 1.0) == 0, "the next round is not waited for"
    one_round(world)
    assert world.job("j")["state"] == "STOPPING"


def test_every_node_gets_its_backlog_in_the_end() -> None:
    world = World()
    nodes = [world.add_node(f"n{number}", cpu=0.1) for number in range(9)]
    submitted(world, array(5000))
    world.round()
    for node in nodes:
        node.pump(world.wall)
        ended = [node.end(key, world.wall, started=world.wall) for key in list(node.running)]
        node.store.report([("tasks", {"events": ended})])
    for _ in range(10):
        world.round()
    assert {node.live for node in world.cluster.nodes.values()} == {210}
    assert not world.cluster.board.refilling
