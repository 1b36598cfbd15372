"""What is removed after the end of a job: its record by ``ttl``, its logs by ``clean: all``."""

from __future__ import annotations

from typing import Any

import pytest

from grass.manifest import parse_job
from master.agent.job_end import LOGS_KEPT
from tests.support.world import World


def ended(**more: Any) -> World:
    """Return a cluster in which the job `j` has just ended."""
    world = World()
    world.add_node("n1")
    world.submit(parse_job({"name": "j", "components": {"a": {"command": "true"}}, **more}).job)
    world.end("j-1/a.0/1")
    return world


def housekeeping(world: World, after: float) -> list[str]:
    """Let time pass, keep house, and return the jobs whose logs were removed before their records."""
    world.now += after
    world.agenda.add(world.now, "housekeeping")
    step = world.step()
    world.round(step)
    return step.changes.logs_dropped


def test_a_job_is_removed_when_its_ttl_is_over() -> None:
    world = ended(ttl="10s")
    housekeeping(world, 9)
    assert [job["name"] for job in world.jobs()] == ["j"]
    housekeeping(world, 2)
    assert world.jobs() == []
    assert world.removed == ["j-1"]


def test_a_new_master_agent_knows_when_a_job_is_removed() -> None:
    world = ended(ttl="10s")
    world.takeover()
    housekeeping(world, 11)
    assert world.jobs() == []


def goes_on(**more: Any) -> World:
    """Return a cluster in which the job `j` has its result, and a task of it goes on."""
    world = World()
    world.add_node("n1")
    parts = {"client": {"command": "ask"}, "server": {"command": "serve"}}
    world.submit(parse_job({"name": "j", "components": parts, "success": ["client"], "clean": "none", **more}).job)
    world.end("j-1/client.0/1")
    return world


@pytest.mark.parametrize("takeover", [False, True])
def test_the_ttl_of_a_job_counts_from_its_result_and_ends_the_tasks_that_go_on(takeover: bool) -> None:
    world = goes_on(ttl="10s")
    [job] = world.jobs()
    assert (job["state"], job["outcome"][0]) == ("STOPPING", "SUCCEEDED")
    assert job["expires"] is not None
    if takeover:
        world.takeover()
    housekeeping(world, 9)
    assert [job["state"] for job in world.jobs()] == ["STOPPING"]
    housekeeping(world, 2)
    world.run()  # the task ends, as it was told to
    assert world.jobs() == []
    assert world.removed == ["j-1"]


def test_the_ttl_does_not_begin_again_with_the_end_of_the_last_task() -> None:
    world = goes_on(ttl="10s")
    housekeeping(world, 6)
    world.end("j-1/server.0/1")
    assert [job["state"] for job in world.jobs()] == ["SUCCEEDED"]
    housekeeping(world, 6)
    assert world.jobs() == []


def test_tasks_that_go_on_without_a_ttl_are_left_alone() -> None:
    world = goes_on()
    housekeeping(world, 3600)
    assert [job["state"] for job in world.jobs()] == ["STOPPING"]


def test_without_a_ttl_the_retention_of_the_cluster_holds() -> None:
    world = ended()
    housekeeping(world, 3600)
    assert [job["expires"] for job in world.jobs()] == [None]


def test_clean_all_removes_the_logs_once_and_keeps_the_record() -> None:
    world = ended(clean="all")
    assert housekeeping(world, LOGS_KEPT - 1) == []
    assert housekeeping(world, 2) == ["j-1"]
    assert housekeeping(world, 60) == []
    assert [job["state"] for job in world.jobs()] == ["SUCCEEDED"]


def test_other_jobs_keep_their_logs() -> None:
    world = ended(clean="running")
    assert housekeeping(world, 10 * LOGS_KEPT) == []
