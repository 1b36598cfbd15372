"""The master-agent's rules for tasks that end."""

from __future__ import annotations

from grass.model.job import Component, Job, Restart, RestartOn
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
