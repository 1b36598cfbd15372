"""What is kept of earlier attempts, and what users change about schedules after their start."""

from __future__ import annotations

import pytest

from grass.errors import ManifestError
from grass.manifest import parse_schedule
from grass.model.job import Component, Job, Restart, RestartOn
from grass.model.resources import Resources
from grass.wire.attempt_record import ATTEMPTS_KEPT
from grass.wire.keys import TaskKey
from grass.wire.tickets import StartSchedule
from master.agent.step import Limits
from tests.support.world import CALM, World

RESTART = Restart(RestartOn.ON_FAILURE, limit=None, backoff=1.0)
RULE = {"name": "s", "cron": "0 * * * *", "overlap": "queue", "job": {"components": {"t": {"command": "x"}}}}


def attempts(world: World, task: str = "t.0") -> list[tuple[int, int | None, str | None]]:
    found = world.api.attempts("j-1").get(TaskKey.parse(task), [])
    return [(one.attempt, one.exit_code, one.reason.message if one.reason else None) for one in found]


def flaky(count: int = 1) -> World:
    world = World()
    world.add_node("n1", cpu=8)
    part = Component("t", "x", replicas=count, resources=Resources(), restart=RESTART)
    world.submit(Job("j", {"t": part}, ("t",)))
    return world


def test_an_earlier_attempt_keeps_its_own_reason_and_a_first_attempt_costs_nothing() -> None:
    world = flaky(2)
    world.end("j-1/t.1/1")
    world.end("j-1/t.0/1", code=3)
    assert world.api.attempts("j-1") == {}
    world.advance(2)
    world.takeover()
    world.end("j-1/t.0/2", code=None, signal=9)
    world.advance(4)
    assert attempts(world) == [(1, 3, "ended with exit code 3"), (2, None, "ended by signal SIGKILL")]
    assert attempts(world, "t.1") == []
    [first, _] = world.api.attempts("j-1")[TaskKey("t", 0)]
    assert first.node == "n1"
    assert first.assigned is not None and first.started is not None and first.ended is not None
    [_, second] = world.api.attempts("j-1")[TaskKey("t", 0)]
    assert second.assigned is not None and second.assigned > first.assigned  # each attempt has its own times


def test_of_many_attempts_the_newest_are_kept_and_none_of_a_job_that_is_gone() -> None:
    world = flaky()
    for attempt in range(1, 40):
        world.end(f"j-1/t.0/{attempt}", code=attempt)
        world.advance(61, CALM)
    assert [number for number, _, _ in attempts(world)] == list(range(40 - ATTEMPTS_KEPT, 40))
    world.end("j-1/t.0/40")
    world.ticket("delete", id="j-1")
    assert world.backend.hgetall(world.keys.attempts("j-1")) == {}


def test_a_lost_attempt_is_kept_without_an_end() -> None:
    world = flaky()
    world.nodes["n1"].connected = False
    world.advance(400)
    world.add_node("n2")
    assert world.tasks("j-1")["t.0"]["node"] == "n2"
    [lost] = world.api.attempts("j-1")[TaskKey("t", 0)]
    assert (lost.attempt, lost.node, lost.ended, lost.reason is not None) == (1, "n1", None, True)


def scheduled(document: dict[str, object] = RULE) -> World:
    world = World()
    world.add_node("n1", cpu=8)
    world.api.ticket(StartSchedule(parse_schedule(document).schedule, "ann"))
    world.run()
    return world


def names(world: World) -> list[str]:
    return [job["name"] for job in world.jobs()]


@pytest.mark.parametrize("takeover", [False, True])
def test_a_paused_rule_starts_nothing_and_leaves_out_what_passed_meanwhile(takeover: bool) -> None:
    world = scheduled()
    world.ticket("schedule-pause", name="s")
    if takeover:
        world.takeover()
    world.advance(3 * 3600, CALM)
    assert names(world) == []
    world.ticket("schedule-resume", name="s")
    assert names(world) == []
    world.advance(3600, CALM)
    assert names(world) == ["s"]


def test_a_rule_runs_now_also_while_it_is_paused_and_keeps_its_times() -> None:
    world = scheduled()
    due = world.schedule_views()[0]["next"]
    world.ticket("schedule-run", name="s")
    assert (names(world), world.schedule_views()[0]["next"]) == (["s"], due)
    world.ticket("schedule-pause", name="s")
    world.ticket("schedule-run", name="s")  # waits for the run that is active
    world.end(f"{world.jobs()[0]['id']}/t.0/1")
    assert len(world.jobs()) == 2


@pytest.mark.parametrize("takeover", [False, True])
def test_a_request_that_is_repeated_because_its_answer_was_lost_is_carried_out_once(takeover: bool) -> None:
    world = scheduled()
    for kind, request in (("schedule-run", "00000001"), ("schedule-pause", "00000002"), ("schedule-run", "00000001")):
        world.ticket(kind, name="s", request=request)
        if takeover:
            world.takeover()
    world.end(f"{world.jobs()[0]['id']}/t.0/1")
    assert len(world.jobs()) == 1
    world.ticket("schedule-resume", name="s", request="00000003")
    world.ticket("schedule-pause", name="s", request="00000002")  # an old one, late
    assert world.schedule_views()[0]["state"] == "ACTIVE"
    world.ticket("schedule-run", name="s", request="00000004")
    assert len(world.jobs()) == 2
    assert [event for event in world.events() if event["kind"] == "ticket-refused"] == []


def test_a_finished_batch_runs_again_and_an_active_one_can_be_neither_run_nor_deleted() -> None:
    world = scheduled({"name": "s", "jobs": ["a", "b"], "components": {"t": {"command": "x"}}})
    for kind in ("schedule-run", "schedule-delete", "schedule-pause", "schedule-resume"):
        world.ticket(kind, name="s")
    assert world.schedule_views()[0]["state"] == "ACTIVE"
    assert len([event for event in world.events() if event["kind"] == "ticket-refused"]) == 4
    for job in world.jobs():
        world.end(f"{job['id']}/t.0/1")
    world.ticket("schedule-run", name="s")
    assert sorted(names(world)) == ["a", "a", "b", "b"]


def test_a_deleted_rule_is_gone_and_its_run_goes_on() -> None:
    world = scheduled()
    world.ticket("schedule-run", name="s")
    world.ticket("schedule-delete", name="s")
    world.takeover()
    world.advance(2 * 3600, CALM)
    assert (world.schedule_views(), names(world), len(world.running())) == ([], ["s"], 1)


@pytest.mark.parametrize(
    ("word", "rule"), [("@daily", "0 0 * * *"), (" @Weekly", "0 0 * * sun"), ("@hourly", "0 * * * *")]
)
def test_a_word_stands_for_a_rule(word: str, rule: str) -> None:
    assert parse_schedule({**RULE, "cron": word}).schedule.cron == rule


@pytest.mark.parametrize("word", ["@reboot", "@", "@daily @daily"])
def test_an_unknown_word_is_refused_by_name(word: str) -> None:
    with pytest.raises(ManifestError, match="cron: must be five fields or one of @hourly, @daily"):
        parse_schedule({**RULE, "cron": word})


def test_schedules_that_have_ended_are_removed_as_ended_jobs_are() -> None:
    world = World(Limits(keep_jobs=2, keep_days=1.0))
    world.add_node("n1", cpu=8)
    for name in ("a", "b", "c", "d"):
        batch = {"name": name, "jobs": [f"{name}1"], "components": {"t": {"command": "x"}}}
        world.api.ticket(StartSchedule(parse_schedule(batch).schedule, "ann"))
        world.run()
        if name != "d":
            world.advance(1)
            world.ticket("schedule-stop", name=name)
    world.takeover()
    world.agenda.add(world.now, "housekeeping")
    world.run()
    assert [view["name"] for view in world.schedule_views()] == ["b", "c", "d"]
    world.now += 25 * 3600
    world.agenda.add(world.now, "housekeeping")
    world.run()
    assert [(view["name"], view["state"]) for view in world.schedule_views()] == [("d", "ACTIVE")]


def test_a_batch_that_runs_again_is_not_old() -> None:
    world = scheduled({"name": "s", "jobs": ["a"], "components": {"t": {"command": "x"}}})
    world.end(f"{world.jobs()[0]['id']}/t.0/1")
    assert world.schedule_views()[0]["ended"] == world.wall
    world.ticket("schedule-run", name="s")
    assert (world.schedule_views()[0]["state"], world.schedule_views()[0]["ended"]) == ("ACTIVE", None)


def test_nobody_replaces_a_stopped_schedule_of_another_user() -> None:
    world = scheduled()
    world.ticket("schedule-stop", name="s")
    world.api.ticket(StartSchedule(parse_schedule(RULE).schedule, "bob"))
    world.run()
    assert [(view["user"], view["state"]) for view in world.schedule_views()] == [("ann", "STOPPED")]
    [refused] = [event for event in world.events() if event["kind"] == "schedule-refused"]
    assert refused["message"] == "schedule s: not started; a schedule of ann has this name"
    world.api.ticket(StartSchedule(parse_schedule(RULE).schedule, "ann"))
    world.run()
    assert world.schedule_views()[0]["state"] == "ACTIVE"
