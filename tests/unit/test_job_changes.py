"""What users change about one job: reruns, stopped tasks, holds, priorities; and what following jobs are told."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

import pytest

from grass.errors import ConflictError
from grass.model.ending import Ending, JobRestart
from grass.model.job import After, AfterState, Component, Condition, ExitCodes, Job, Notice, Restart, RestartOn
from grass.model.job_settings import JobSettings, SettingError
from grass.model.lifecycle import JobState, TaskState
from grass.model.resources import Resources
from grass.wire.job_record import JobRecord, first_record
from grass.wire.keys import TaskKey
from grass.wire.task_record import TaskRecord
from master.api.rerun import unfinished, whole
from tests.support.world import CALM, World

NOTHING = Resources()


def array(count: int, **more: object) -> Job:
    part = Component("t", "x", replicas=count, resources=NOTHING, **more)  # type: ignore[arg-type]
    return Job("j", {"t": part}, ("t",), fail_fast=False)


def world_of(job: Job) -> World:
    world = World()
    world.add_node("n1", cpu=8)
    world.submit(job)
    return world


def states(world: World, job_id: str) -> dict[str, str]:
    return {name: task["state"] for name, task in world.tasks(job_id).items()}


def record(job: Job, state: JobState) -> JobRecord:
    first = first_record(job, job_id=f"{job.name}-1", user="ann", now=1.0)
    return JobRecord(**{name: getattr(first, name) for name in JobRecord.__struct_fields__} | {"state": state})


def ended(**tasks: str) -> dict[TaskKey, TaskRecord]:
    return {TaskKey.parse(name.replace("_", ".")): TaskRecord(TaskState(state), 1) for name, state in tasks.items()}


# which tasks a rerun starts


def test_a_rerun_of_what_failed_carries_what_succeeded_as_ranges_of_indexes() -> None:
    job = array(6)
    known = ended(t_0="SUCCEEDED", t_1="SUCCEEDED", t_2="FAILED", t_3="STOPPED", t_5="SUCCEEDED")
    assert unfinished(record(job, JobState.FAILED), job, known).carried == {"t": ((0, 1), (5, 5))}


def test_a_gang_is_repeated_together() -> None:
    parts = {name: Component(name, "x", replicas=2, resources=NOTHING) for name in ("a", "b", "c")}
    job = Job("j", parts, ("a", "b", "c"), gang=("a", "b"))
    known = ended(a_0="SUCCEEDED", a_1="SUCCEEDED", b_0="SUCCEEDED", b_1="FAILED", c_0="SUCCEEDED")
    assert unfinished(record(job, JobState.FAILED), job, known).carried == {"c": ((0, 0),)}


def test_a_pipeline_goes_on_with_the_failed_step_and_what_follows_it() -> None:
    after = {"b": {"a": Condition.RUNNING}, "c": {"b": Condition.SUCCEEDED}, "d": {}}
    parts = {name: Component(name, "x", replicas=2, depends_on=after.get(name, {})) for name in "abcd"}
    job = Job("j", parts, ("c",))
    known = ended(a_0="SUCCEEDED", a_1="SUCCEEDED", b_0="SUCCEEDED", b_1="FAILED", c_0="SUCCEEDED", d_0="SUCCEEDED")
    again = unfinished(record(job, JobState.FAILED), job, known, following=True)
    assert again.carried == {"a": ((0, 1),), "b": ((0, 0),), "d": ((0, 0),)}
    assert "c" in unfinished(record(job, JobState.FAILED), job, known).carried


def test_nothing_is_repeated_of_a_run_that_is_active_or_has_no_failure() -> None:
    job = array(1)
    with pytest.raises(ConflictError, match="still RUNNING"):
        whole(record(job, JobState.RUNNING), job)
    with pytest.raises(ConflictError, match="all of its tasks succeeded"):
        unfinished(record(job, JobState.SUCCEEDED), job, ended(t_0="SUCCEEDED"))


def test_a_whole_rerun_of_a_partial_one_starts_all_tasks() -> None:
    job = replace(array(3), carried={"t": ((0, 1),)})
    assert whole(record(job, JobState.SUCCEEDED), job) == array(3)


# how a partial run goes


@pytest.mark.parametrize("takeover", [False, True])
def test_a_partial_run_starts_only_what_it_has_to_and_keeps_indexes(takeover: bool) -> None:
    world = World()
    world.submit(replace(array(7), carried={"t": ((0, 2), (5, 5))}))
    assert world.job("j")["counts"] == {"PENDING": 3, "SUCCEEDED": 4}
    if takeover:
        world.takeover()
    world.add_node("n1", cpu=8)
    assert world.running() == ["j-1/t.3/1", "j-1/t.4/1", "j-1/t.6/1"]
    if takeover:
        world.takeover()
    for index in (3, 4, 6):
        world.end(f"j-1/t.{index}/1")
    assert world.job("j")["state"] == "SUCCEEDED"
    assert world.job("j")["counts"] == {"SUCCEEDED": 7}
    assert sorted(world.tasks("j-1")) == ["t.3", "t.4", "t.6"]


def test_a_takeover_in_the_middle_of_a_partial_run_starts_nothing_twice() -> None:
    world = world_of(replace(array(9, parallelism=2), carried={"t": ((1, 3), (6, 6))}))
    assert world.running() == ["j-1/t.0/1", "j-1/t.4/1"]
    world.takeover()
    world.end("j-1/t.0/1")
    assert world.running() == ["j-1/t.4/1", "j-1/t.5/1"]
    world.takeover()
    world.end("j-1/t.4/1"), world.end("j-1/t.5/1")
    assert world.running() == ["j-1/t.7/1", "j-1/t.8/1"]


def test_a_component_that_was_carried_whole_satisfies_those_that_wait_for_it() -> None:
    parts = {
        "first": Component("first", "x", replicas=2, resources=NOTHING),
        "then": Component("then", "x", resources=NOTHING, depends_on={"first": Condition.SUCCEEDED}),
    }
    world = world_of(Job("j", parts, ("first", "then"), carried={"first": ((0, 1),)}))
    assert world.running() == ["j-1/then.0/1"]


def test_a_run_that_is_stopped_counts_what_it_carried_as_succeeded() -> None:
    world = world_of(replace(array(4, parallelism=1), carried={"t": ((0, 1),)}))
    world.ticket("stop", id="j-1")
    assert world.job("j")["counts"] == {"SUCCEEDED": 2, "STOPPED": 2}


@pytest.mark.parametrize("takeover", [False, True])
def test_a_partial_run_that_starts_again_as_a_whole_repeats_only_its_own_tasks(takeover: bool) -> None:
    job = replace(array(5), fail_fast=True, carried={"t": ((1, 2),)}, ending=Ending(restart=JobRestart(1, 0.5)))
    world = world_of(job)
    world.end("j-1/t.3/1"), world.end("j-1/t.0/1", code=1)
    assert world.job("j")["counts"] == {"PENDING": 3, "SUCCEEDED": 2}
    if takeover:
        world.takeover()
    world.advance(2)
    assert world.running() == ["j-1/t.0/2", "j-1/t.3/2", "j-1/t.4/2"]


# stopping tasks


@pytest.mark.parametrize("takeover", [False, True])
def test_a_stopped_task_never_starts_again_and_the_others_go_on(takeover: bool) -> None:
    world = world_of(array(3, restart=Restart(RestartOn.ALWAYS, limit=None)))
    world.nodes["n1"].obstinate = True
    world.ticket("stop-tasks", id="j-1", tasks=["t.1"])
    if takeover:
        world.takeover()
    world.nodes["n1"].obstinate = False
    world.run()
    assert states(world, "j-1") == {"t.0": "RUNNING", "t.1": "STOPPED", "t.2": "RUNNING"}
    assert world.tasks("j-1")["t.1"]["reason"]["message"] == "stopped by ann"
    assert world.job("j")["state"] == "RUNNING"


def test_a_job_of_which_tasks_were_stopped_ends_as_stopped_and_says_which() -> None:
    world = world_of(array(3))
    world.ticket("stop-tasks", id="j-1", tasks=["t.1"])
    world.end("j-1/t.0/1"), world.end("j-1/t.2/1")
    assert (world.job("j")["state"], world.job("j")["reason"]["message"]) == ("STOPPED", "t.1: stopped by ann")


def test_a_task_that_waits_can_be_stopped_before_its_first_attempt_and_during_its_backoff() -> None:
    world = world_of(array(4, parallelism=1, restart=Restart(RestartOn.ON_FAILURE, backoff=5.0)))
    world.ticket("stop-tasks", id="j-1", tasks=["t.2"])
    world.takeover()
    world.end("j-1/t.0/1", code=1)
    world.ticket("stop-tasks", id="j-1", tasks=["t.0"])
    assert world.running() == ["j-1/t.1/1"]
    world.end("j-1/t.1/1")
    assert world.running() == ["j-1/t.3/1"]
    world.advance(20)
    assert world.running() == ["j-1/t.3/1"]
    world.end("j-1/t.3/1")
    assert world.job("j")["counts"] == {"STOPPED": 2, "SUCCEEDED": 2}
    assert world.job("j")["reason"]["message"] == "t.0 and 1 more: stopped by ann"


def test_a_component_is_stopped_whole_and_a_failure_weighs_more_than_a_stop() -> None:
    parts = {name: Component(name, "x", replicas=2, resources=NOTHING) for name in ("a", "b")}
    world = world_of(Job("j", parts, ("a", "b"), fail_fast=False))
    world.ticket("stop-tasks", id="j-1", tasks=["a", "no-such", "b.9"])
    assert states(world, "j-1") == {"a.0": "STOPPED", "a.1": "STOPPED", "b.0": "RUNNING", "b.1": "RUNNING"}
    world.end("j-1/b.0/1", code=3), world.end("j-1/b.1/1")
    assert world.job("j")["state"] == "FAILED"


def test_a_task_that_ended_before_it_heard_of_the_stop_keeps_its_success() -> None:
    world = world_of(array(2))
    world.nodes["n1"].obstinate = True
    world.ticket("stop-tasks", id="j-1", tasks=["t"])
    world.end("j-1/t.0/1"), world.end("j-1/t.1/1", code=7)
    assert states(world, "j-1") == {"t.0": "SUCCEEDED", "t.1": "STOPPED"}


@pytest.mark.parametrize("lost_first", [False, True])
def test_a_stopped_task_of_a_lost_node_is_not_replaced(lost_first: bool) -> None:
    world = world_of(array(1))
    world.nodes["n1"].connected = False
    if not lost_first:
        world.ticket("stop-tasks", id="j-1", tasks=["t.0"])
    world.advance(400)
    if lost_first:
        world.ticket("stop-tasks", id="j-1", tasks=["t.0"])
    assert world.job("j")["state"] == "STOPPED"
    world.add_node("n2")
    assert world.running() == ["j-1/t.0/1"]  # of the node that is away
    world.nodes["n1"].connected = True
    world.advance(2)
    assert world.running() == []


def test_a_component_that_waits_for_a_stopped_one_ends_the_job() -> None:
    parts = {
        "first": Component("first", "x", resources=NOTHING),
        "then": Component("then", "x", resources=NOTHING, depends_on={"first": Condition.SUCCEEDED}),
    }
    world = world_of(Job("j", parts, ("first", "then")))
    world.ticket("stop-tasks", id="j-1", tasks=["first"])
    assert world.job("j")["state"] == "STOPPED"


# holds and priorities


def test_a_held_job_starts_nothing_until_it_is_released_also_after_a_takeover() -> None:
    world = World()
    world.submit(array(1))
    world.ticket("hold", id="j-1")
    world.add_node("n1")
    world.takeover()
    world.run()
    assert world.running() == []
    assert world.job("j")["reason"]["message"] == "held by ann; starts after `grass job release j`"
    world.ticket("release", id="j-1")
    assert world.running() == ["j-1/t.0/1"]
    assert [event["kind"] for event in world.events() if "held" in event["kind"] or "rel" in event["kind"]] == [
        "job-held",
        "job-released",
    ]


def test_a_job_may_be_held_from_the_beginning() -> None:
    world = World()
    world.add_node("n1")
    world.submit(array(1), held="ann")
    assert (world.running(), world.job("j")["reason"]["code"]) == ([], "held")
    world.ticket("release", id="j-1")
    assert world.running() == ["j-1/t.0/1"]


@pytest.mark.parametrize("takeover", [False, True])
def test_a_job_that_is_put_off_starts_at_its_time(takeover: bool) -> None:
    world = World()
    world.add_node("n1")
    at = world.wall + 7200
    world.submit(array(1), starts=at)
    if takeover:
        world.takeover()
    world.advance(7100, CALM)
    shown = datetime.fromtimestamp(at, timezone.utc)
    assert world.running() == []
    reason = world.job("j")["reason"]
    message = f"starts at {shown:%Y-%m-%d %H:%M:%S} UTC, or after `grass job release j`"
    assert (reason["code"], reason["message"]) == ("put-off", message)
    world.advance(100, CALM)
    assert (world.running(), world.job("j")["starts"]) == (["j-1/t.0/1"], None)


def test_a_job_that_is_put_off_can_be_released_held_and_stopped() -> None:
    world = World()
    world.add_node("n1")
    for name in ("a", "b"):
        world.submit(replace(array(1), name=name), starts=world.wall + 60)
    world.ticket("release", id="a-1")
    assert world.running() == ["a-1/t.0/1"]
    world.ticket("hold", id="b-1")
    world.advance(100, CALM)
    assert world.job("b")["reason"]["code"] == "held"
    world.ticket("stop", id="b-1")
    assert world.job("b")["state"] == "STOPPED"


def test_a_higher_priority_moves_a_waiting_job_ahead_and_is_kept() -> None:
    world = World()
    for name in ("a", "b"):
        part = Component("t", "x", resources=Resources(cpu=2000))
        world.submit(Job(name, {"t": part}, ("t",)))
    world.ticket("set", id="b-1", settings={"priority": 7})
    world.takeover()
    world.add_node("n1", cpu=2)
    assert world.running() == ["b-1/t.0/1"]
    assert world.job("b")["priority"] == 7


@pytest.mark.parametrize("kind", ["hold", "release"])
def test_a_job_that_has_begun_is_left_alone_with_an_event(kind: str) -> None:
    world = world_of(array(1))
    before = world.job("j")
    world.ticket(kind, id="j-1")
    assert world.job("j") == before
    assert world.events()[-1]["message"] == f"ticket {kind}: refused; job j is RUNNING"


@pytest.mark.parametrize(("code", "codes"), [(64, "special"), (65, "special"), (64, "plain"), (65, "plain")])
def test_exit_codes_are_instructions_unless_the_component_says_that_they_are_plain(code: int, codes: str) -> None:
    job = array(2, restart=Restart(RestartOn.ON_FAILURE, backoff=0.1), exit_codes=ExitCodes(codes))
    world = world_of(replace(job, ending=Ending(restart=JobRestart(1, 0.5))))
    world.end("j-1/t.0/1", code=code)
    world.advance(1)
    if codes == "plain":
        assert (states(world, "j-1"), world.job("j")["state"]) == ({"t.0": "RUNNING", "t.1": "RUNNING"}, "RUNNING")
    else:
        assert states(world, "j-1") == {"t.0": "FAILED", "t.1": "STOPPED" if code == 65 else "RUNNING"}


@pytest.mark.parametrize(("codes", "tries"), [("special", 0), ("plain", 1)])
def test_a_job_starts_again_after_a_plain_exit_code_64(codes: str, tries: int) -> None:
    world = world_of(replace(array(1, exit_codes=ExitCodes(codes)), ending=Ending(restart=JobRestart(1, 0.5))))
    world.end("j-1/t.0/1", code=64)
    assert world.job("j")["tries"] == tries


@pytest.mark.parametrize("takeover", [False, True])
def test_a_job_ends_with_the_failure_after_those_that_it_allows(takeover: bool) -> None:
    world = world_of(replace(array(5), ending=Ending(max_failures=2)))
    for index in (0, 1):
        world.end(f"j-1/t.{index}/1", code=1)
    if takeover:
        world.takeover()
    assert world.job("j")["state"] == "RUNNING"
    world.end("j-1/t.2/1", code=1)
    assert world.job("j")["outcome"][0] == "FAILED"
    world.advance(2)
    assert (world.job("j")["state"], world.job("j")["counts"]) == ("FAILED", {"FAILED": 3, "STOPPED": 2})


# settings


@pytest.mark.parametrize("takeover", [False, True])
def test_a_time_limit_of_a_running_job_counts_from_where_the_old_one_began(takeover: bool) -> None:
    world = world_of(replace(array(1), timeout=100.0))
    world.advance(60, CALM)
    world.ticket("set", id="j-1", settings={"timeout": 200.0})
    if takeover:
        world.takeover()
    world.advance(130, CALM)
    assert world.job("j")["state"] == "RUNNING"
    world.advance(15, CALM)
    job = world.job("j")
    assert (job["state"], job["reason"]["message"]) == ("FAILED", "exceeded its time limit of 200 s")
    assert [each["message"] for each in world.events() if each["kind"] == "job-set"] == [
        "job j: time limit 3m20s instead of 1m40s"
    ]


def test_tasks_are_told_ahead_of_the_limit_that_the_job_has_then() -> None:
    job = array(1)
    noticed = replace(job.components["t"], notice=Notice(30.0))
    world = world_of(replace(job, components={"t": noticed}, timeout=100.0))
    world.nodes["n1"].obstinate = True
    world.ticket("set", id="j-1", settings={"timeout": 200.0})
    world.advance(168, CALM)
    assert world.tasks("j-1")["t.0"]["reason"] is None
    world.advance(5)
    assert world.tasks("j-1")["t.0"]["reason"]["code"] == "timeout"


def test_a_job_without_a_limit_gets_one_from_now_on_and_can_lose_it() -> None:
    world = world_of(array(1))
    world.advance(500, CALM)
    world.ticket("set", id="j-1", settings={"timeout": 100.0})
    world.advance(50, CALM)
    world.ticket("set", id="j-1", settings={"timeout": 0.0})
    world.takeover()
    world.advance(500, CALM)
    assert world.job("j")["state"] == "RUNNING"
    world.ticket("set", id="j-1", settings={"timeout": 10.0})
    world.advance(12, CALM)
    assert world.job("j")["state"] == "FAILED"


def test_a_time_limit_that_is_over_already_ends_the_job_at_once() -> None:
    world = world_of(replace(array(1), timeout=100.0))
    world.advance(60, CALM)
    world.ticket("set", id="j-1", settings={"timeout": 30.0})
    world.advance(1)
    assert world.job("j")["state"] == "FAILED"


def test_more_or_fewer_tasks_run_at_once_once_the_parallelism_is_set() -> None:
    world = World()
    world.add_node("n1", cpu=8)
    world.submit(array(6, parallelism=2))
    assert len(world.running()) == 2
    world.ticket("set", id="j-1", settings={"parallelism": {"t": 4}})
    assert len(world.running()) == 4
    world.ticket("set", id="j-1", settings={"parallelism": {"t": 1}})
    world.takeover()
    for key in world.running()[:3]:
        world.end(key)
    assert len(world.running()) == 1
    world.ticket("set", id="j-1", settings={"parallelism": {"t": 0}})
    assert len(world.running()) == 3


@pytest.mark.parametrize(
    ("job", "settings", "problem"),
    [
        (array(2), JobSettings(priority=1001), "priority: must be between 0 and 1000, got 1001"),
        (array(2), JobSettings(parallelism={"u": 1}), "parallelism.u: the job has no such component; it has t"),
        (array(2), JobSettings(parallelism={"t": -1}), "parallelism.t: must be at least 1, or 0 for no limit; got -1"),
        (
            array(2, min=2),
            JobSettings(parallelism={"t": 1}),
            "parallelism.t: must be at least `min`, which is 2; got 1",
        ),
        (
            replace(array(2), gang=("t",)),
            JobSettings(parallelism={"t": 1}),
            "parallelism.t: must be at least 2, because its tasks start together; got 1",
        ),
    ],
)
def test_settings_that_a_job_cannot_have_are_refused(job: Job, settings: JobSettings, problem: str) -> None:
    with pytest.raises(SettingError) as caught:
        settings.applied(job)
    assert str(caught.value) == problem


def test_settings_of_a_job_that_ends_are_refused_with_an_event() -> None:
    world = world_of(array(1))
    world.ticket("stop", id="j-1", grace=30.0)
    world.ticket("set", id="j-1", settings={"timeout": 5.0})
    assert world.events()[-1]["message"].startswith("ticket set: refused; job j: is STOP")


# jobs that follow others, and older runs


def test_a_following_job_is_told_the_very_run_it_waited_for() -> None:
    world = world_of(array(1))
    follower = Job("k", {"t": Component("t", "x", resources=NOTHING)}, ("t",), after=(After("j"),))
    world.submit(follower)
    world.end("j-1/t.0/1")
    world.submit(array(1), run=2)  # a newer run changes nothing
    world.takeover()
    assert world.nodes["n1"].launch["k-1/t"].awaited == {"j": "j-1"}
    assert world.job("k")["awaited"] == {"j": "j-1"}


def test_a_job_starts_that_comes_in_the_round_in_which_the_job_that_it_waits_for_ends() -> None:
    world = world_of(array(1))
    with world.one_round():
        world.submit(Job("k", {"t": Component("t", "x", resources=NOTHING)}, ("t",), after=(After("j"),)))
        world.end("j-1/t.0/1")
    assert world.running() == ["k-1/t.0/1"]


@pytest.mark.parametrize(
    ("code", "wanted", "state"), [(1, "failed", "RUNNING"), (0, "failed", "STOPPED"), (1, "succeeded", "FAILED")]
)
def test_a_job_follows_the_end_that_it_waits_for(code: int, wanted: str, state: str) -> None:
    world = world_of(array(1))
    world.submit(
        Job("k", {"t": Component("t", "x", resources=NOTHING)}, ("t",), after=(After("j", AfterState(wanted)),))
    )
    world.takeover()
    world.end("j-1/t.0/1", code=code)
    job = world.job("k")
    assert job["state"] == state
    if state != "RUNNING":
        aim, end = ("fails", "SUCCEEDED") if wanted == "failed" else ("succeeds", "FAILED")
        assert job["reason"]["message"] == f"cannot start: it waited until job j {aim}, but that job is {end}"


def test_a_job_that_follows_a_failure_is_stopped_when_the_other_one_is() -> None:
    world = world_of(array(1))
    world.submit(
        Job("k", {"t": Component("t", "x", resources=NOTHING)}, ("t",), after=(After("j", AfterState.FAILED),))
    )
    world.ticket("stop", id="j-1")
    assert world.job("k")["state"] == "STOPPED"


def test_a_job_that_comes_and_is_deleted_in_one_round_leaves_nothing() -> None:
    world = world_of(array(1))
    with world.one_round():
        world.submit(replace(array(1), name="k"))
        world.ticket("delete", id="k-1")
    assert [view["id"] for view in world.jobs()] == ["j-1"]


def test_an_older_run_is_known_as_such_after_the_newest_was_deleted() -> None:
    world = world_of(array(1))
    world.end("j-1/t.0/1")
    world.submit(array(1), run=2)
    world.end("j-2/t.0/1")
    assert world.api.newer_deleted("j") is None
    world.ticket("delete", id="j-2")
    assert world.job("j")["id"] == "j-1"
    assert world.api.newer_deleted("j") == "j-2"
    world.submit(array(1), run=3)
    assert world.api.newer_deleted("j") is None


def test_nothing_is_remembered_of_a_name_without_runs() -> None:
    world = world_of(array(1))
    world.end("j-1/t.0/1")
    world.submit(array(1), run=2)
    world.end("j-2/t.0/1")
    world.ticket("delete", id="j-2"), world.ticket("delete", id="j-1")
    assert world.backend.hgetall(world.keys.deleted) == {}
