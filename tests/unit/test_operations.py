"""Operations on jobs: scaling, suspending, restarting, replacing; what they do, and how they end."""

from __future__ import annotations

import gc
import time
from dataclasses import replace
from typing import Any

import pytest

from grass.manifest import parse_job
from grass.model.ending import Ending, Enough
from grass.model.framework import Framework, FrameworkName
from grass.model.job import Component, Job, Notice, Ready, Restart, RestartOn
from grass.model.reasons import ReasonCode
from grass.model.resources import Resources
from grass.model.sizes import scaling_warning
from grass.wire import codec
from master.agent.agenda import Agenda
from master.agent.recover import rebuild
from tests.support.said import report
from tests.support.world import World

TORCHRUN = Framework(FrameworkName.TORCHRUN)


def elastic(replicas: int = 2, **more: Any) -> Job:
    settings = {"min": 1, "max": 4, "resources": Resources(1000), **more}
    return Job("j", {"w": Component("w", "x", replicas=replicas, **settings)}, ("w",))


def nodes(count: int) -> World:
    world = World()
    for number in range(1, count + 1):
        world.add_node(f"n{number}", cpu=1)
    return world


class Operations:
    """Files operations on job ``j``, and reads their records."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.filed = 0

    def file(self, kind: str, **body: Any) -> str:
        self.filed += 1
        name = f"o{self.filed}"
        self.world.ticket(kind, job_id="j-1", id=name, **body)
        return name

    def scale(self, size: int | None = None, **body: Any) -> str:
        return self.file("scale", component="w", size=size, **body)

    def show(self, name: str) -> dict[str, Any]:
        record: dict[str, Any] = codec.builtins(self.world.api.operation("j-1", name))
        return record

    def outcome(self, name: str) -> str:
        return str(self.show(name).get("outcome", self.show(name).get("state", "WAITING")))


def size(world: World) -> int:
    return int(world.job("j")["components"]["w"]["replicas"])


def members(world: World, node: str = "n1") -> list[str]:
    return [member.task for member in world.nodes[node].membership["j-1/w"].members]


def test_a_scale_out_makes_a_new_task_a_member_once_it_is_ready() -> None:
    world = nodes(3)
    world.submit(elastic(ready=Ready(port="p"), ports=("p",)))
    for index in (0, 1):
        say_ready(world, f"j-1/w.{index}/1")
    assert members(world) == ["w.0", "w.1"]
    asked = Operations(world)
    name = asked.scale(3)
    assert asked.show(name)["state"] == "STARTING"
    assert (members(world), size(world)) == (["w.0", "w.1"], 3)
    say_ready(world, "j-1/w.2/1")
    done = asked.show(name)
    assert (done["outcome"], done["from_size"], done["to_size"]) == ("DONE", 2, 3)
    assert members(world) == ["w.0", "w.1", "w.2"]
    assert done["generation"] == world.nodes["n1"].membership["j-1/w"].generation == 2


def say_ready(world: World, key: str) -> None:
    node = next(node for node in world.nodes.values() if key in node.running)
    node.store.report([report("tasks", {"events": [{"key": key, "event": "ready"}]})])
    world.run()


def test_a_scale_out_without_room_times_out_and_touches_no_member() -> None:
    world = nodes(2)
    world.submit(elastic())
    before = members(world)
    asked = Operations(world)
    name = asked.scale(3, deadline=30.0)
    assert asked.show(name)["state"] == "RESERVING"
    world.advance(31)
    assert asked.outcome(name) == "TIMED_OUT"
    assert "1 of 1 new tasks were not ready in time" in asked.show(name)["message"]
    assert (size(world), members(world), world.running()) == (2, before, ["j-1/w.0/1", "j-1/w.1/1"])


def test_the_cost_to_undo_a_scale_out_grows_with_its_size_and_not_with_the_square() -> None:
    def cost(size: int) -> float:
        world = nodes(1)
        world.submit(elastic(replicas=1, min=1, max=100_000))
        operations = Operations(world)
        asked = operations.scale(size, deadline=5.0)
        begun = time.process_time()
        world.advance(6)
        assert operations.outcome(asked) == "TIMED_OUT"
        return time.process_time() - begun

    cost(100)
    assert cost(16_000) < 8 * cost(4_000)


def test_the_cost_of_a_takeover_amid_a_scale_out_grows_with_its_size_and_not_with_the_square() -> None:
    def cost(size: int) -> float:
        world = nodes(1)
        job = world.submit(elastic(replicas=1, min=1, max=100_000))
        Operations(world).scale(size, deadline=600.0)
        world.round()
        gc.disable()  # as the master-agent does while it loads
        try:
            begun = time.process_time()
            found = rebuild(world.store.load(), Agenda(), world.now, world.boot)
            spent = time.process_time() - begun
        finally:
            gc.enable()
        part = next(iter(found.jobs[job].components.values()))
        assert [*part.entering] == [*range(1, size)]
        return spent

    cost(100)
    assert cost(32_000) < 8 * cost(8_000)


def test_new_tasks_start_together_unless_a_part_is_enough() -> None:
    world = nodes(3)
    world.submit(elastic())
    asked = Operations(world)
    whole = asked.scale(4, deadline=30.0)
    assert len(world.running()) == 2
    world.advance(31)
    assert asked.outcome(whole) == "TIMED_OUT"
    part = asked.scale(4, deadline=30.0, partial=True)
    assert len(members(world)) == 3
    world.advance(31)
    assert asked.outcome(part) == "PARTIALLY_DONE"
    assert (size(world), len(members(world)), len(world.running())) == (3, 3, 3)


def test_a_new_task_that_fails_rolls_the_scale_out_back_and_the_job_goes_on() -> None:
    world = nodes(3)
    world.submit(elastic(ready=Ready(port="p"), ports=("p",)))
    asked = Operations(world)
    name = asked.scale(3)
    world.end("j-1/w.2/1", code=1)
    assert asked.outcome(name) == "ROLLED_BACK"
    assert (world.job("j")["state"], size(world)) == ("RUNNING", 2)


def test_a_scale_in_lets_a_framework_drain_and_then_stops_the_task() -> None:
    world = nodes(3)
    world.submit(elastic(replicas=3, framework=TORCHRUN))
    asked = Operations(world)
    name = asked.scale(2)
    assert asked.show(name)["state"] == "DRAINING"
    assert members(world) == ["w.0", "w.1"]
    assert "j-1/w.2/1" in world.running()
    node = next(node for node in world.nodes.values() if "j-1/w.2/1" in node.running)
    node.store.report([report("tasks", {"events": [{"key": "j-1/w.2/1", "event": "drained"}]})])
    world.run()
    assert asked.outcome(name) == "DONE"
    assert world.running() == ["j-1/w.0/1", "j-1/w.1/1"]


def test_a_task_that_does_not_drain_is_stopped_at_the_deadline() -> None:
    world = nodes(3)
    world.submit(elastic(replicas=3, framework=TORCHRUN))
    asked = Operations(world)
    name = asked.scale(2, deadline=5.0)
    world.advance(4)
    assert "j-1/w.2/1" in world.running()
    world.advance(2)
    assert asked.outcome(name) == "DONE"
    assert "j-1/w.2/1" not in world.running()


@pytest.mark.parametrize("code", [0, 1])
def test_the_end_of_a_removed_task_is_judged_by_intent(code: int) -> None:
    world = nodes(3)
    world.submit(elastic(replicas=3, framework=TORCHRUN))
    asked = Operations(world)
    name = asked.scale(2)
    world.end("j-1/w.2/1", code=code)
    assert asked.outcome(name) == "DONE"
    assert world.job("j")["state"] == "RUNNING"
    for index in (0, 1):
        world.end(f"j-1/w.{index}/1")
    assert world.job("j")["state"] == "SUCCEEDED"


def test_named_tasks_leave_and_their_indexes_are_used_again_with_new_attempts() -> None:
    world = nodes(3)
    world.submit(elastic(replicas=3))
    asked = Operations(world)
    assert asked.outcome(asked.scale(remove=["w.1"])) == "DONE"
    assert members(world) == ["w.0", "w.2"]
    assert world.job("j")["components"]["w"]["holes"] == (1,)
    world.takeover()
    assert asked.outcome(asked.scale(delta=1)) == "DONE"
    assert members(world) == ["w.0", "w.1", "w.2"]
    assert "j-1/w.1/2" in world.running()
    assert world.job("j")["components"]["w"]["holes"] == ()


@pytest.mark.parametrize("removed", ["w.0", "w.1"])  # below others, or the last one
@pytest.mark.parametrize("bounds", [{}, {"min": None, "max": None}])
def test_the_attempt_of_a_removed_task_is_kept_whole_when_its_index_is_used_again(
    removed: str, bounds: dict[str, Any]
) -> None:
    world = nodes(2)
    world.submit(elastic(replicas=2, **bounds))
    asked = Operations(world)
    assert asked.outcome(asked.scale(remove=[removed])) == "DONE"
    for node in ("n1", "n2"):
        world.ticket("node-cordon", node=node)
    asked.scale(delta=1, deadline=600.0)
    world.takeover()
    for node in ("n1", "n2"):
        world.ticket("node-uncordon", node=node)
    assert f"j-1/{removed}/2" in world.running()
    kept = world.api.attempts("j-1", [f"{removed}/1"])[f"{removed}/1"]
    assert kept.node is not None and kept.reason is not None and kept.reason.code is ReasonCode.RELEASED
    assert kept.assigned is not None and kept.started is not None and kept.ended is not None


def test_index_0_leaves_only_if_it_is_named() -> None:
    world = nodes(2)
    world.submit(elastic())
    asked = Operations(world)
    asked.scale(1)
    assert members(world) == ["w.0"]
    asked.scale(2)
    asked.scale(1, remove=["w.0"])
    assert members(world, "n2") == ["w.1"]


def test_index_0_stays_although_it_waits_and_others_run() -> None:
    world = nodes(2)
    world.submit(elastic(restart=Restart(RestartOn.ALWAYS, limit=None, backoff=60.0)))
    world.end("j-1/w.0/1", code=1)
    Operations(world).scale(1)
    assert (world.running(), world.job("j")["components"]["w"]["holes"]) == ([], ())


def test_index_0_stays_although_it_was_never_assigned_and_an_earlier_run_did_the_others() -> None:
    world = World()
    world.submit(replace(elastic(min=None, max=None), carried={"w": ((1, 1),)}))
    Operations(world).scale(1)
    component = world.cluster.jobs["j-1"].components["w"]
    assert (component.end, component.holes, component.startable) == (1, frozenset(), 1)


def test_index_0_stays_although_it_waits_for_resources_and_others_run() -> None:
    world = nodes(2)
    world.submit(elastic(min=None, max=None))
    asked = Operations(world)
    with world.one_round():  # its place is taken at once
        world.submit(Job("other", {"t": Component("t", "x", resources=Resources(1000))}, ("t",)))
        asked.scale(1, remove=["w.0"])
    assert world.running() == ["j-1/w.1/1", "other-1/t.0/1"]
    asked.scale(2)
    asked.scale(1)
    assert world.job("j")["components"]["w"]["holes"] == ()


def test_a_task_that_decides_the_result_of_its_job_cannot_be_removed() -> None:
    world = nodes(2)
    world.submit(replace(elastic(), ending=Ending(enough={"w": Enough.INDEX0})))
    asked = Operations(world)
    name = asked.scale(remove=["w.0"])
    assert (asked.outcome(name), size(world)) == ("REJECTED", 2)
    assert asked.show(name)["message"] == (
        "w.0: the job succeeds with this task (`index0`), so it cannot be removed; "
        "`grass job replace j w.0` moves it to another node"
    )
    assert asked.outcome(asked.scale(remove=["w.1"])) == "DONE"
    world.end("j-1/w.0/1")
    assert world.job("j")["state"] == "SUCCEEDED"


def test_those_who_are_alone_on_their_switch_leave_first() -> None:
    world = World()
    for number, switch in enumerate(("s1", "s2", "s1"), 1):
        world.add_node(f"n{number}", cpu=1, path=[switch])
    world.submit(elastic(replicas=3))
    alone = next(iter(world.nodes["n2"].running)).split("/")[1]
    Operations(world).scale(2)
    if alone != "w.0":
        assert alone not in members(world)
    assert "w.0" in members(world)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"size": 5}, "w: the size must be at most `max`, which is 4; got 5"),
        ({"delta": -2}, "w: the size must be at least 1, got 0"),
        ({"size": -1}, "w: the size must be at least 1, got -1"),
        ({"remove": ["w.0", "w.1"]}, "w: the size must be at least 1, got 0"),
        ({"remove": ["w.7"]}, "w.7: the task does not exist any more"),
        ({"size": 1, "remove": ["w.0", "w.1"]}, "w: tasks to remove: 2, but the size goes from 2 to 1"),
        ({}, "w: give a size, such as 3, +1 or -1, or tasks to remove"),
    ],
)
def test_a_size_that_cannot_be_is_rejected_and_nothing_changes(body: dict[str, Any], message: str) -> None:
    world = nodes(3)
    world.submit(elastic())
    asked = Operations(world)
    name = asked.file("scale", component="w", **body)
    found = asked.show(name)
    assert found["outcome"] == "REJECTED"
    assert found["message"].startswith(message)
    assert (size(world), len(world.running())) == (2, 2)


def test_operations_on_one_component_take_turns_and_a_waiting_one_can_be_cancelled() -> None:
    world = nodes(2)
    world.submit(elastic())
    asked = Operations(world)
    first, second, third = asked.scale(3, deadline=30.0), asked.scale(1), asked.scale(4)
    assert [asked.outcome(name) for name in (first, second, third)] == ["RESERVING", "WAITING", "WAITING"]
    world.ticket("operation-cancel", job_id="j-1", id=third)
    world.ticket("operation-cancel", job_id="j-1", id=first)
    assert [asked.outcome(name) for name in (first, second, third)] == ["CANCELLED", "DONE", "CANCELLED"]
    assert size(world) == 1


def test_a_component_without_bounds_gets_more_tasks_that_wait_like_others() -> None:
    world = nodes(1)
    world.submit(Job("j", {"w": Component("w", "x", replicas=2, resources=Resources(1000))}, ("w",)))
    asked = Operations(world)
    assert asked.outcome(asked.scale(4)) == "DONE"
    assert asked.outcome(asked.scale(3)) == "DONE"
    for index in range(3):
        world.end(f"j-1/w.{index}/1")
    assert world.job("j")["state"] == "SUCCEEDED"


@pytest.mark.parametrize(
    ("part", "warning"),
    [
        ({}, "has neither `min` nor `max` nor a framework"),
        ({"framework": "torchrun"}, "has neither `min` nor `max`, so every size is accepted"),
        (
            {"framework": "torch"},
            "has neither `min` nor `max`, so every size is accepted; framework torch gives a task",
        ),
        ({"framework": "tf", "ports": ["tf"], "max": 3}, "framework tf gives a task the size only when it starts; "),
        ({"framework": "torchrun", "max": 3}, ""),
        ({"max": 3}, ""),
    ],
)
def test_a_scaling_without_bounds_or_that_its_framework_cannot_follow_is_a_warning(
    part: dict[str, Any], warning: str
) -> None:
    [component] = parse_job({"name": "j", "components": {"w": {"command": "x", **part}}}).job.components.values()
    assert scaling_warning(component).startswith(warning) and bool(scaling_warning(component)) == bool(warning)


def test_min_tasks_start_together_and_the_others_as_they_fit() -> None:
    world = nodes(1)
    world.submit(elastic(replicas=3, min=2))
    assert world.running() == []
    assert world.job("j")["state"] == "QUEUED"
    world.add_node("n2", cpu=1)
    assert len(world.running()) == 2
    world.add_node("n3", cpu=1)
    assert len(world.running()) == 3


def test_below_min_the_whole_job_is_queued_again_and_releases_its_resources() -> None:
    world = nodes(3)
    world.submit(elastic(replicas=3, min=2, restart=Restart(RestartOn.ON_FAILURE)))
    for name in ("n2", "n3"):
        world.nodes[name].connected = False
    world.advance(320, step=5.0)
    assert world.job("j")["state"] == "RUNNING"
    world.advance(40)
    view = world.job("j")
    assert (view["state"], list(world.nodes["n1"].running)) == ("QUEUED", [])
    assert "fewer than 2 tasks of w run" in view["reason"]["message"] or view["reason"]["code"] == "gang"
    world.add_node("n4", cpu=1)
    world.advance(2)
    assert world.job("j")["state"] == "RUNNING"
    assert sorted(key.partition("/")[2] for name in ("n1", "n4") for key in world.nodes[name].running) == [
        "w.0/2",
        "w.1/2",
    ]


def test_a_suspended_job_holds_nothing_and_goes_on_when_it_is_resumed() -> None:
    world = nodes(2)
    world.submit(elastic())
    asked = Operations(world)
    assert asked.outcome(asked.file("suspend")) == "DONE"
    view = world.job("j")
    assert (view["state"], view["reason"]["code"], world.running()) == ("SUSPENDED", "suspended", [])
    world.takeover()
    world.advance(5)
    assert world.running() == []
    assert asked.outcome(asked.file("suspend")) == "REJECTED"
    assert asked.outcome(asked.file("resume")) == "DONE"
    assert world.job("j")["state"] == "RUNNING"
    assert world.running() == ["j-1/w.0/2", "j-1/w.1/2"]
    assert asked.outcome(asked.file("resume")) == "REJECTED"


def test_a_suspended_job_can_be_stopped_and_a_queued_one_suspended() -> None:
    world = World()
    world.submit(elastic())
    asked = Operations(world)
    assert asked.outcome(asked.file("suspend")) == "DONE"
    assert world.job("j")["state"] == "SUSPENDED"
    world.ticket("stop", id="j-1")
    assert world.job("j")["state"] == "STOPPED"


def test_a_restart_begins_every_task_anew_also_those_that_have_ended() -> None:
    world = nodes(2)
    world.submit(elastic())
    world.end("j-1/w.0/1")
    asked = Operations(world)
    assert asked.outcome(asked.file("restart")) == "DONE"
    assert world.running() == ["j-1/w.0/2", "j-1/w.1/2"]


def test_a_replaced_task_starts_again_on_another_node() -> None:
    world = nodes(3)
    world.submit(elastic())
    before = world.tasks("j-1")["w.1"]["node"]
    asked = Operations(world)
    name = asked.file("replace", task="w.1")
    assert asked.outcome(name) == "DONE"
    after = world.tasks("j-1")["w.1"]
    assert (after["attempt"], after["state"]) == (2, "RUNNING")
    assert after["node"] != before
    assert asked.outcome(asked.file("replace", task="w.9")) == "REJECTED"


def test_a_task_that_finds_no_other_node_may_come_back_after_the_deadline() -> None:
    world = nodes(2)
    world.submit(elastic())
    asked = Operations(world)
    name = asked.file("replace", task="w.1")
    assert asked.outcome(name) == "STARTING"
    assert world.running() == ["j-1/w.0/1"]
    world.advance(601)
    assert asked.outcome(name) == "TIMED_OUT"
    assert world.running() == ["j-1/w.0/1", "j-1/w.1/2"]


@pytest.mark.parametrize("until", ["it drains", "it stops", "it starts"])
def test_the_deadline_of_a_replacement_counts_for_its_drain_its_end_and_its_start(until: str) -> None:
    world = nodes(2)
    world.submit(elastic(framework=TORCHRUN))
    asked, old = Operations(world), "j-1/w.1/1"
    leaves = until == "it starts"
    world.nodes["n2"].obstinate = not leaves
    name = asked.file("replace", task="w.1", deadline=20.0 if until == "it drains" else 45.0)
    assert asked.outcome(name) == "DRAINING"
    world.advance(19)
    if leaves:
        world.end(old)
        assert asked.outcome(name) == "STARTING"  # n1 is full
    assert "outcome" not in asked.show(name)
    if until == "it drains":
        world.advance(2)
    else:
        world.advance(12)
        assert asked.outcome(name) == ("STARTING" if leaves else "STOPPING")
        world.advance(15)
    assert asked.outcome(name) == "TIMED_OUT"
    if not leaves:
        assert old in world.running()
        world.end(old)
    assert world.running() == ["j-1/w.0/1", "j-1/w.1/2"]


def test_a_lost_node_and_a_drain_are_operations_and_do_not_wait_for_a_scaling() -> None:
    world = nodes(3)
    world.submit(elastic())
    asked = Operations(world)
    scaling = asked.scale(4, deadline=500.0)
    world.ticket("node-drain", node="n2", deadline=0.0)
    drain = next(each for each in world.api.operations("j-1") if each.kind.value == "drain")
    assert (drain.author, drain.outcome.value if drain.outcome else None) == ("ann", "DONE")
    assert asked.show(scaling)["state"] == "RESERVING"
    assert len(members(world)) == 2


def test_the_end_of_a_job_ends_its_operations() -> None:
    world = nodes(2)
    world.submit(elastic())
    asked = Operations(world)
    names = [asked.scale(3), asked.scale(1)]
    world.ticket("stop", id="j-1")
    assert [asked.outcome(name) for name in names] == ["ROLLED_BACK", "CANCELLED"]


def test_a_failed_task_is_done_without_as_long_as_min_others_remain() -> None:
    world = nodes(3)
    world.submit(elastic(replicas=3, min=2))
    world.end("j-1/w.2/1", code=1)
    assert world.job("j")["state"] == "RUNNING"
    world.end("j-1/w.0/1")
    world.end("j-1/w.1/1")
    assert world.job("j")["state"] == "SUCCEEDED"


def test_the_history_of_operations_is_bounded() -> None:
    world = nodes(2)
    world.submit(elastic())
    asked = Operations(world)
    for _ in range(60):
        asked.scale(2)
    assert len(world.api.operations("j-1")) == 50
    assert world.api.operations("j-1")[-1].number == 60
    world.ticket("stop", id="j-1")
    world.ticket("delete", id="j-1")
    assert world.api.operations("j-1") == []


def test_an_operation_that_is_filed_again_is_carried_out_once() -> None:
    world = nodes(4)
    world.submit(elastic())
    for _ in range(2):
        world.ticket("scale", job_id="j-1", id="o1", component="w", delta=1)
    assert (size(world), len(world.api.operations("j-1"))) == (3, 1)


@pytest.mark.parametrize("how", ["suspend", "restart", "scale", "drain", "stop"])
def test_a_task_that_leaves_while_its_job_goes_on_is_told_first_and_one_that_a_user_stops_is_not(how: str) -> None:
    world = nodes(2)
    world.submit(elastic(notice=Notice(60.0)))
    asked = Operations(world)
    for node in world.nodes.values():
        node.obstinate = True
    match how:
        case "scale":
            asked.scale(1)
        case "drain":
            world.ticket("node-drain", node="n2", user="root", deadline=0.0)
        case "stop":
            world.ticket("stop-tasks", id="j-1", tasks=["w.1"])
        case _:
            asked.file(how)
    world.advance(2)
    entry = world.nodes["n2"].desired["j-1/w.1/1"]
    assert entry.stop_grace is not None and bool(entry.notice) is (how != "stop")
