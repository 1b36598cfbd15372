"""What is kept of earlier attempts, and what users change about schedules after their start."""

from __future__ import annotations

import pytest

from grass.errors import ManifestError
from grass.manifest.schedule import parse_schedule
from grass.model.job import Component, Job, Restart, RestartOn
from grass.model.lifecycle import TaskState
from grass.model.reasons import Reason, ReasonCode
from grass.model.resources import Resources
from grass.wire import codec
from grass.wire.attempt_record import ATTEMPTS_KEPT, LEAST_KEPT, AttemptRecord, attempt_of, expired_attempt, field_of
from grass.wire.daemon_end import DaemonEnd, DaemonEnds
from grass.wire.job_file import JobFile
from grass.wire.task_record import TaskRecord
from grass.wire.tickets import StartSchedule
from master.agent.nodes import MOST_ENDS
from master.agent.step import Limits
from tests.support.sessions import sighting
from tests.support.world import CALM, World

RESTART = Restart(RestartOn.ON_FAILURE, limit=None, backoff=1.0)
RULE = {"name": "s", "cron": "0 * * * *", "overlap": "queue", "job": {"components": {"t": {"command": "x"}}}}


def kept(world: World, task: str = "t.0") -> list[AttemptRecord]:
    return list(world.api.attempts("j-1", [field_of(task, number) for number in range(1, 60)]).values())


def attempts(world: World, task: str = "t.0") -> list[tuple[int, int | None, str | None]]:
    found = kept(world, task)
    return [(one.attempt, one.exit_code, one.reason.message if one.reason else None) for one in found]


def flaky(count: int = 1, limits: Limits | None = None) -> World:
    world = World(limits)
    world.add_node("n1", cpu=8)
    part = Component("t", "x", replicas=count, resources=Resources(), restart=RESTART)
    world.submit(Job("j", {"t": part}, ("t",)))
    return world


def test_an_earlier_attempt_keeps_its_own_reason_and_a_first_attempt_costs_nothing() -> None:
    world = flaky(2)
    world.end("j-1/t.1/1")
    world.end("j-1/t.0/1", code=3)
    assert attempts(world) == attempts(world, "t.1") == []
    world.advance(2)
    world.takeover()
    world.end("j-1/t.0/2", code=None, signal=9)
    world.advance(4)
    assert attempts(world) == [
        (1, 3, "ended with exit code 3"),
        (2, None, "ended by signal SIGKILL (killed; not by Grass)"),
    ]
    assert attempts(world, "t.1") == []
    [first, second] = kept(world)
    assert first.node == "n1"
    assert first.assigned is not None and first.started is not None and first.ended is not None
    assert second.assigned is not None and second.assigned > first.assigned  # each attempt has its own times


@pytest.mark.parametrize(
    ("details", "kept"),
    [
        ('{"seconds":1,"cause":{"code":"signal","message":"ended by signal SIGKILL","details":{"signal":9}}}', 9),
        ('{"seconds":1.5,"cause":null}', None),
        ('{"seconds":1.5,"of_another_version":[]}', None),
        ("{}", None),
    ],
)
def test_the_cause_of_a_wait_is_read_as_versions_before_stored_it(details: str, kept: int | None) -> None:
    waits = codec.Form[Reason](Reason).decode(f'{{"code":"backoff","message":"waits","details":{details}}}')
    reason = attempt_of(TaskRecord(TaskState.PENDING, reason=waits)).reason
    assert reason == (None if kept is None else Reason(ReasonCode.SIGNAL, "ended by signal SIGKILL"))
    assert reason is None or reason.details == {"signal": kept}
    assert codec.encode(waits.details.get("cause")) == (details[21:-1] if kept else "null")


def test_every_attempt_is_kept_and_none_of_a_job_that_is_gone() -> None:
    world = flaky()
    for attempt in range(1, 40):
        world.end(f"j-1/t.0/{attempt}", code=attempt)
        world.advance(61, CALM)
    assert [number for number, _, _ in attempts(world)] == list(range(1, 40))
    world.end("j-1/t.0/40")
    world.ticket("delete", id="j-1")
    assert world.backend.hgetall(world.keys.attempts("j-1")) == {}


def test_of_a_job_with_very_many_restarts_the_newest_attempts_of_each_task_are_kept() -> None:
    world = flaky(2, Limits(attempts_kept=4))
    world.end("j-1/t.1/1", code=1)
    for attempt in range(1, LEAST_KEPT + 4):
        world.end(f"j-1/t.0/{attempt}", code=attempt)
        world.advance(61, CALM)
    # the first four restarts remove nothing; then each removes the one that is as old as a task keeps
    assert [number for number, _, _ in attempts(world)] == list(range(4, LEAST_KEPT + 4))
    assert [number for number, _, _ in attempts(world, "t.1")] == [1]


@pytest.mark.parametrize(
    ("attempt", "restarts", "tasks", "expired"),
    [
        (2, 1, 1, None),
        (ATTEMPTS_KEPT, ATTEMPTS_KEPT, 5, None),  # one bad task among five has them all
        (ATTEMPTS_KEPT + 1, ATTEMPTS_KEPT + 1, 1, 1),
        (30_000, ATTEMPTS_KEPT + 1, 5, 10_000),
        (LEAST_KEPT + 1, ATTEMPTS_KEPT + 1, 50_000, 1),
        (LEAST_KEPT, ATTEMPTS_KEPT + 1, 50_000, None),
    ],
)
def test_an_attempt_is_removed_only_once_its_job_has_too_many(
    attempt: int, restarts: int, tasks: int, expired: int | None
) -> None:
    assert expired_attempt(attempt, restarts, tasks) == expired


def test_the_file_of_a_job_is_kept_until_the_job_is_deleted_and_the_master_agent_never_reads_it() -> None:
    world, part = World(), Component("t", "x", resources=Resources())
    world.add_node("n1", cpu=8)
    file, seen = JobFile("j.yml", b"never unpacked"), sighting(world.api)
    job = Job("j", {"t": part}, ("t",))
    world.api.submit(job, job_id="j-1", user="ann", now=world.wall, warnings=[], file=file, sighting=seen)
    world.run()
    world.takeover()
    world.end("j-1/t.0/1")
    assert world.api.file("j-1") == file
    world.ticket("delete", id="j-1")
    assert world.backend.hgetall(world.keys.job_files) == {}


def test_a_lost_attempt_is_kept_without_an_end() -> None:
    world = flaky()
    world.nodes["n1"].connected = False
    world.advance(400)
    world.add_node("n2")
    assert world.tasks("j-1")["t.0"]["node"] == "n2"
    [lost] = kept(world)
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


def test_ends_of_a_nodes_daemons_are_events_and_a_node_cannot_fill_the_log_with_them() -> None:
    world = World()
    node = world.add_node("n1")
    end = DaemonEnd(daemon="shepherd", time=1.0, code=-9)
    node.store.report([DaemonEnds((end,) * 20)] * 5)
    node.store.report([DaemonEnds((DaemonEnd(daemon="init", time=1.0, code=-9),))])
    world.run()
    told = [event for event in world.events() if event["kind"] in ("daemon-ended", "report-refused")]
    assert [event["kind"] for event in told] == ["daemon-ended"] * MOST_ENDS + ["report-refused"]
    assert told[0]["message"] == "node n1: shepherd: ended by signal SIGKILL; it is started again"
    assert told[0]["node"] == "n1"
