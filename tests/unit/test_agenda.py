"""The timers of the master-agent: those of jobs that have ended do not pile up."""

from __future__ import annotations

from grass.manifest import parse_job
from master.agent.agenda import Agenda
from tests.support.world import World


def test_timers_of_jobs_that_ended_are_removed_once_they_may_be_many() -> None:
    agenda = Agenda()
    for number in range(300):
        agenda.add(1e6 + number, "deadline", f"j-{number}")
        agenda.add(float(number), "schedule", f"j-{number}")
    agenda.sweep({"j-7", "j-8"}.__contains__)
    assert len(agenda) == 302
    assert agenda.due(1000.0) == [("schedule", f"j-{number}", "", 0) for number in range(300)]
    assert agenda.due(2e6) == [("deadline", "j-7", "", 0), ("deadline", "j-8", "", 0)]


def test_a_few_timers_are_left_alone() -> None:
    agenda = Agenda()
    agenda.add(1.0, "deadline", "j-1")
    agenda.sweep(lambda _: False)
    assert len(agenda) == 1


def test_many_short_jobs_with_a_time_limit_of_a_week_leave_no_timer_each() -> None:
    world = World()
    world.compares = False
    world.add_node("n1", cpu=8)
    part = {"command": "x", "resources": {"cpu": 1}}
    for number in range(300):
        job_id = world.submit(parse_job({"name": f"j{number}", "timeout": "7d", "components": {"t": part}}).job)
        world.end(f"{job_id}/t.0/1")
    world.agenda.add(world.now, "housekeeping")
    world.advance(20.0)
    assert len(world.agenda) < 200
