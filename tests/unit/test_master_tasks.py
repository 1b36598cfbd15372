"""The master-agent's rules for tasks that end."""

from __future__ import annotations

from grass.model.job import Component, Job, Restart, RestartOn
from grass.model.resources import Resources
from tests.support.world import World


def test_a_task_without_a_limit_is_restarted_for_ever() -> None:
    world = World()
    world.add_node("n1")
    restart = Restart(RestartOn.ON_FAILURE, limit=None, backoff=0.0)
    job_id = world.submit(Job("j", {"t": Component("t", "x", restart=restart)}, ("t",)))
    for attempt in range(1, 1100):
        world.end(f"{job_id}/t.0/{attempt}", code=1)
    assert world.running() == [f"{job_id}/t.0/1100"]
    world.end(f"{job_id}/t.0/1100")
    assert world.job("j")["state"] == "SUCCEEDED"
    assert world.job("j")["restarts"] == 1099


def test_more_tasks_than_a_node_has_ports_wait_and_say_so() -> None:
    world = World()
    world.add_node("n1")
    component = Component("t", "x", replicas=12_000, resources=Resources(), ports=("p",))
    world.api.submit(
        Job("j", {"t": component}, ("t",)), job_id="j-1", user="ann", now=world.wall, warnings=[], request_id="r"
    )
    world.round()
    view = world.job("j")
    assert view["counts"] == {"ASSIGNED": 10_800, "PENDING": 1_200}
    assert "ports short" in view["components"]["t"]["reason"]["message"]
