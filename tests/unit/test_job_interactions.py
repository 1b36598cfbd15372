"""What users and the cluster do to one job at the same time: operations, stopped tasks, restarts, takeovers."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from grass.model.ending import Ending, JobRestart
from grass.model.framework import Framework, FrameworkName
from grass.model.job import After, AfterState, Component, Job, Ready, Restart, RestartOn
from grass.model.resources import Resources
from grass.model.sizes import SizeError, check_scaling
from grass.wire import codec
from grass.wire.operation_record import OperationKind
from tests.support.said import report, ticket
from tests.support.world import World

TORCHRUN = Framework(FrameworkName.TORCHRUN)


def elastic(replicas: int = 2, ending: Ending | None = None, **more: Any) -> Job:
    settings = {"min": 1, "max": 4, "resources": Resources(1000), **more}
    job = Job("j", {"w": Component("w", "x", replicas=replicas, **settings)}, ("w",))
    return job if ending is None else replace(job, ending=ending)


def nodes(count: int) -> World:
    world = World()
    for number in range(1, count + 1):
        world.add_node(f"n{number}", cpu=1)
    return world


def operate(world: World, kind: str, name: str, **body: Any) -> None:
    world.ticket(kind, job_id="j-1", id=name, **body)


def outcome(world: World, name: str) -> str:
    record: dict[str, Any] = codec.builtins(world.api.operation("j-1", name))
    return str(record.get("outcome", record.get("state", "WAITING")))


def states(world: World) -> dict[str, str]:
    return {name: task["state"] for name, task in world.tasks("j-1").items()}


@pytest.mark.parametrize("takeover", [False, True])
def test_stopping_a_new_task_that_waits_for_room_rolls_the_scale_out_back(takeover: bool) -> None:
    world = nodes(2)
    world.submit(elastic())
    operate(world, "scale", "o1", component="w", size=3)
    if takeover:
        world.takeover()
    world.ticket("stop-tasks", id="j-1", tasks=["w.2"])
    assert outcome(world, "o1") == "ROLLED_BACK"
    assert world.job("j")["counts"] == {"RUNNING": 2}
    for index in (0, 1):
        world.end(f"j-1/w.{index}/1")
    assert world.job("j")["state"] == "SUCCEEDED"


@pytest.mark.parametrize("size", [3, 4])
def test_a_removed_task_that_was_carried_over_stays_removed_after_a_takeover(size: int) -> None:
    world = World()
    world.add_node("n1", cpu=8)
    part = Component("w", "x", replicas=5, resources=Resources(1000))
    world.submit(replace(Job("j", {"w": part}, ("w",), fail_fast=False), carried={"w": ((0, 3),)}))
    operate(world, "scale", "o1", component="w", size=size)
    before = world.job("j")["counts"]
    world.takeover()
    world.ticket("hold", id="j-1")
    operate(world, "scale", "o2", component="w", size=5)
    assert sum(world.job("j")["counts"].values()) == 5
    assert before == {"SUCCEEDED": size - 1, "RUNNING": 1}
    assert world.job("j")["counts"] == {"SUCCEEDED": size - 1, "RUNNING": 6 - size}
    world.takeover()
    world.end("j-1/w.4/1")
    for key in world.running():
        world.end(key)
    assert (world.job("j")["state"], world.job("j")["counts"]) == ("SUCCEEDED", {"SUCCEEDED": 5})


@pytest.mark.parametrize("kind", ["suspend", "restart"])
def test_a_task_that_a_user_stops_does_not_come_back_with_its_job(kind: str) -> None:
    world = nodes(2)
    world.submit(elastic())
    for node in world.nodes.values():
        node.obstinate = True
    world.ticket("stop-tasks", id="j-1", tasks=["w.1"])
    operate(world, kind, "o1")
    if kind == "suspend":
        operate(world, "resume", "o2")
    for node in world.nodes.values():
        node.obstinate = False
    world.run()
    if kind == "suspend":
        assert (world.running(), states(world)) == (["j-1/w.0/2"], {"w.0": "RUNNING", "w.1": "STOPPED"})
    else:  # a restart begins all tasks anew
        assert world.running() == ["j-1/w.0/2", "j-1/w.1/2"]


def test_a_task_that_a_user_stops_is_not_replaced() -> None:
    world = nodes(3)
    world.submit(elastic())
    world.nodes["n2"].obstinate = True
    world.ticket("stop-tasks", id="j-1", tasks=["w.1"])
    operate(world, "replace", "o1", task="w.1")
    world.nodes["n2"].obstinate = False
    world.run()
    assert (outcome(world, "o1"), states(world)["w.1"]) == ("REJECTED", "STOPPED")


@pytest.mark.parametrize("takeover", [False, True])
def test_a_user_stops_a_job_that_is_about_to_start_again(takeover: bool) -> None:
    world = nodes(2)
    world.submit(elastic(min=2, ending=Ending(restart=JobRestart(3, 0.5))))
    world.nodes["n2"].obstinate = True
    world.end("j-1/w.0/1", code=1)
    assert world.job("j")["state"] == "STOPPING"
    world.ticket("stop", id="j-1")
    if takeover:
        world.takeover()
    world.nodes["n2"].obstinate = False
    world.advance(5)
    view = world.job("j")
    assert (view["state"], view["reason"]["message"], world.running()) == ("STOPPED", "stopped by ann", [])


@pytest.mark.parametrize("takeover", [False, True])
def test_new_tasks_that_never_started_are_no_tasks_of_the_restarted_job(takeover: bool) -> None:
    world = nodes(2)
    world.submit(elastic(min=2, ending=Ending(restart=JobRestart(3, 0.5))))
    operate(world, "scale", "o1", component="w", size=3)
    world.end("j-1/w.0/1", code=1)
    assert (world.job("j")["state"], world.job("j")["counts"]) == ("QUEUED", {"PENDING": 2})
    if takeover:
        world.takeover()
    world.add_node("n3", cpu=1)
    world.advance(5)
    assert outcome(world, "o1") == "ROLLED_BACK"
    assert [key.partition("/")[2] for key in world.running()] == ["w.0/2", "w.1/2"]
    operate(world, "scale", "o2", component="w", size=3)
    assert "j-1/w.2/1" in world.running()


def test_a_restarted_job_may_use_the_node_that_a_replaced_task_had_to_leave() -> None:
    world = nodes(2)
    world.submit(elastic(min=2, ending=Ending(restart=JobRestart(3, 0.5))))
    world.nodes["n1"].obstinate = True
    operate(world, "replace", "o1", task="w.0")
    world.end("j-1/w.1/1", code=1)
    world.nodes["n1"].obstinate = False
    world.advance(5)
    assert world.job("j")["state"] == "RUNNING"
    assert world.running() == ["j-1/w.0/2", "j-1/w.1/2"]


def test_a_job_is_not_queued_again_for_tasks_that_never_come_back() -> None:
    world = nodes(2)
    world.submit(elastic(min=2))
    world.ticket("stop-tasks", id="j-1", tasks=["w.1"])
    world.advance(120)
    assert (world.job("j")["state"], world.running()) == ("RUNNING", ["j-1/w.0/1"])


def test_a_job_that_failed_while_it_was_suspended_starts_again_once_it_goes_on() -> None:
    world = nodes(2)
    world.submit(elastic(min=2, ending=Ending(restart=JobRestart(3, 0.5))))
    node = next(node for node in world.nodes.values() if "j-1/w.0/1" in node.running)
    node.store.report([report("tasks", {"events": [node.end("j-1/w.0/1", world.wall, code=1)]})])
    world.api.ticket(ticket("suspend", user="ann", job_id="j-1", id="o1"))
    world.run()
    assert world.job("j")["state"] == "SUSPENDED"
    operate(world, "resume", "o2")
    world.advance(5)
    assert (world.job("j")["state"], world.job("j")["tries"]) == ("RUNNING", 1)


def test_the_deadline_of_a_job_passes_while_its_tasks_are_being_stopped() -> None:
    world = nodes(2)
    world.submit(elastic(min=2, ending=Ending(restart=JobRestart(3, 0.5), deadline=20.0)))
    world.nodes["n2"].obstinate = True
    world.end("j-1/w.0/1", code=1)
    world.advance(30)
    assert world.job("j")["state"] == "STOPPING"
    world.nodes["n2"].obstinate = False
    world.advance(2)
    view = world.job("j")
    assert (view["state"], view["reason"]["code"]) == ("FAILED", "timeout")


def test_a_suspended_job_remembers_that_the_job_before_has_ended() -> None:
    world = nodes(1)
    before = Job("before", {"a": Component("a", "x", resources=Resources(1000))}, ("a",))
    world.submit(before)
    world.submit(replace(elastic(1), after=(After("before"),)))
    operate(world, "suspend", "o1")
    assert world.job("j")["state"] == "SUSPENDED"
    world.end("before-1/a.0/1")
    world.ticket("delete", id="before-1")
    operate(world, "resume", "o2")
    assert (world.job("j")["state"], world.job("j")["awaited"]) == ("RUNNING", {"before": "before-1"})


def test_a_removed_task_of_a_lost_node_does_not_return_with_a_restarted_job() -> None:
    world = nodes(3)
    world.submit(elastic(3, min=2, ending=Ending(restart=JobRestart(3, 0.5))))
    for name in ("n1", "n2", "n3"):
        world.nodes[name].obstinate = True
    operate(world, "scale", "o1", component="w", size=2)
    away = next(node for node in world.nodes.values() if "j-1/w.2/1" in node.running)
    away.connected = False
    world.end("j-1/w.0/1", code=1)
    world.advance(400)
    for node in world.nodes.values():
        node.obstinate = False
    world.advance(10)
    assert (world.job("j")["state"], world.job("j")["counts"]) == ("RUNNING", {"RUNNING": 2})


def test_a_released_job_says_that_it_still_waits_to_start_again() -> None:
    world = nodes(2)
    world.submit(elastic(min=2, ending=Ending(restart=JobRestart(3, 10.0))))
    world.end("j-1/w.0/1", code=1)
    world.ticket("hold", id="j-1")
    assert world.job("j")["reason"]["code"] == "held"
    world.ticket("release", id="j-1")
    reason = world.job("j")["reason"]
    assert (reason["code"], reason["message"]) == ("backoff", "waits until it starts again (restart 1 of 3)")
    world.advance(11)
    assert world.job("j")["state"] == "RUNNING"


def test_a_stopped_task_of_a_queued_job_stays_stopped_after_a_takeover() -> None:
    world = World()
    part = Component("w", "x", replicas=3, resources=Resources(1000))
    world.submit(Job("j", {"w": part}, ("w",), fail_fast=False))
    world.ticket("stop-tasks", id="j-1", tasks=["w.1"])
    world.takeover()
    world.add_node("n1", cpu=8)
    assert world.running() == ["j-1/w.0/1", "j-1/w.2/1"]
    assert world.job("j")["counts"] == {"RUNNING": 2, "STOPPED": 1}


def test_a_job_waits_once_to_be_queued_again_and_not_if_enough_tasks_run_by_then() -> None:
    world = nodes(2)
    world.submit(elastic(min=2))
    operate(world, "replace", "o1", task="w.1")
    world.advance(200)
    waiting = [each for each in world.api.operations("j-1") if each.kind is OperationKind.REQUEUE]
    assert len(waiting) == 1
    world.add_node("n3", cpu=1)
    world.advance(2)
    assert (outcome(world, "o1"), outcome(world, waiting[0].id)) == ("DONE", "CANCELLED")
    assert world.running() == ["j-1/w.0/1", "j-1/w.1/2"]


@pytest.mark.parametrize("kind", ["scale", "suspend"])
def test_the_deadline_of_a_drain_holds_for_tasks_that_their_framework_lets_go(kind: str) -> None:
    world = nodes(2)
    world.submit(elastic(framework=Framework(FrameworkName.TORCHRUN)))
    operate(world, kind, "o1", deadline=3600.0, **({"component": "w", "size": 1} if kind == "scale" else {}))
    assert "j-1/w.1/1" in world.running()
    node = next(name for name, node in world.nodes.items() if "j-1/w.1/1" in node.running)
    world.ticket("node-drain", node=node, deadline=10.0)
    world.advance(12)
    assert "j-1/w.1/1" not in world.running()


def test_a_job_that_waits_to_start_again_sends_no_membership_after_a_takeover() -> None:
    world = nodes(2)
    world.submit(elastic(min=2, ending=Ending(restart=JobRestart(3, 10.0))))
    world.end("j-1/w.0/1", code=1)
    world.takeover()
    before = dict(world.nodes["n1"].membership)
    world.ticket("hold", id="j-1")
    assert world.nodes["n1"].membership == before
    world.ticket("release", id="j-1")
    world.advance(11)
    membership = world.nodes["n1"].membership["j-1/w"]
    assert membership.generation > before["j-1/w"].generation
    assert [member.attempt for member in membership.members] == [2, 2]


def test_the_membership_of_a_component_that_grows_beyond_one_task_is_published() -> None:
    world = World()
    world.add_node("n1", cpu=8)
    world.submit(Job("j", {"w": Component("w", "x", resources=Resources(1000), ports=("p",))}, ("w",)))
    operate(world, "scale", "o1", component="w", size=2)
    assert [member.task for member in world.nodes["n1"].membership["j-1/w"].members] == ["w.0", "w.1"]
    operate(world, "scale", "o2", component="w", size=1, remove=["w.1"])
    world.takeover()
    assert [member.task for member in world.nodes["n1"].membership["j-1/w"].members] == ["w.0"]


@pytest.mark.parametrize("takeover", [False, True])
def test_a_scale_out_that_a_restart_of_the_job_cuts_off_leaves_the_old_size(takeover: bool) -> None:
    world = nodes(4)
    world.submit(elastic(min=2, ending=Ending(restart=JobRestart(3, 0.5)), ready=Ready(port="p"), ports=("p",)))
    operate(world, "scale", "o1", component="w", size=4)
    world.nodes["n3"].obstinate = world.nodes["n4"].obstinate = True  # the new tasks outlive the failure
    world.end("j-1/w.0/1", code=1)
    assert world.job("j")["state"] == "STOPPING"
    if takeover:
        world.takeover()
    world.nodes["n3"].obstinate = world.nodes["n4"].obstinate = False
    world.advance(5)
    operation = world.api.operation("j-1", "o1")
    assert operation is not None
    assert (outcome(world, "o1"), operation.from_size, operation.removed) == ("ROLLED_BACK", 2, ("w.2", "w.3"))
    view = world.job("j")
    assert (view["state"], view["tries"], view["counts"]) == ("RUNNING", 1, {"RUNNING": 2})
    assert (view["components"]["w"]["replicas"], view["components"]["w"]["joining"]) == (2, ())
    assert world.running() == ["j-1/w.0/2", "j-1/w.1/2"]


def test_a_scale_in_that_a_restart_of_the_job_cuts_off_is_done() -> None:
    world = nodes(3)
    world.submit(elastic(3, min=2, ending=Ending(restart=JobRestart(3, 0.5)), framework=TORCHRUN))
    operate(world, "scale", "o1", component="w", size=2, deadline=60.0)
    world.end("j-1/w.0/1", code=1)
    world.advance(5)
    assert (outcome(world, "o1"), world.job("j")["counts"]) == ("DONE", {"RUNNING": 2})


@pytest.mark.parametrize("takeover", [False, True])
def test_a_job_that_was_stopping_when_it_was_deleted_is_gone_at_its_end(takeover: bool) -> None:
    world = nodes(2)
    world.submit(elastic())
    for node in world.nodes.values():
        node.obstinate = True
    world.ticket("stop", id="j-1")
    world.ticket("delete", id="j-1")
    if takeover:
        world.takeover()
    for node in world.nodes.values():
        node.obstinate = False
    world.advance(1)
    assert (world.api.job("j"), world.removed) == (None, ["j-1"])


@pytest.mark.parametrize("order", [("stop", "delete"), ("delete",)])
def test_a_job_that_waits_for_a_queued_one_fails_when_that_is_deleted(order: tuple[str, ...]) -> None:
    world = World()
    world.submit(elastic(1))
    after = Job("k", elastic(1).components, ("w",), after=(After("j"),))
    world.submit(after)
    for kind in order:
        world.api.ticket(ticket(kind, user="ann", id="j-1"))
    world.run()
    reason = world.job("k")["reason"]
    assert (world.job("k")["state"], reason["code"], reason["details"]["job"]) == ("FAILED", "after-failed", "j-1")


def test_a_held_job_that_is_suspended_can_be_released() -> None:
    world = World()
    world.submit(elastic())
    world.ticket("hold", id="j-1")
    operate(world, "suspend", "o1")
    world.ticket("release", id="j-1")
    assert (world.job("j")["state"], world.job("j")["held"]) == ("SUSPENDED", None)
    world.add_node("n1", cpu=2)
    operate(world, "resume", "o2")
    assert world.job("j")["state"] == "RUNNING"


@pytest.mark.parametrize("takeover", [False, True])
def test_a_task_that_was_removed_and_came_back_is_stopped_and_numbers_its_attempts_on(takeover: bool) -> None:
    world = nodes(4)
    world.submit(elastic(4))
    operate(world, "scale", "o1", component="w", remove=["w.3"])
    operate(world, "suspend", "o2")
    operate(world, "scale", "o3", component="w", size=4)
    world.ticket("stop-tasks", id="j-1", tasks=["w.3"])
    assert (states(world)["w.3"], world.tasks("j-1")["w.3"]["attempt"]) == ("STOPPED", 1)
    if takeover:
        world.takeover()
    operate(world, "resume", "o4")
    operate(world, "restart", "o5")
    assert world.running() == [f"j-1/w.{index}/{2 if index == 3 else 3}" for index in range(4)]


def test_a_takeover_sends_no_membership_again_and_tells_a_node_that_has_none() -> None:
    world = nodes(2)
    world.submit(elastic())
    world.takeover()
    sent = {name: len(sent_memberships(world, name)) for name in world.nodes}
    assert all(sent.values())
    operate(world, "scale", "o1", component="w", size=2)  # nothing changes, but the job is written
    assert {name: len(sent_memberships(world, name)) for name in world.nodes} == sent
    world.add_node("n3", cpu=1)
    operate(world, "scale", "o2", component="w", size=3)
    assert {node.membership["j-1/w"].generation for node in world.nodes.values()} == {2}


def sent_memberships(world: World, node: str) -> list[str]:
    entries = world.backend.stream(world.keys.changes(node), "0", 1000)
    return [fields["body"] for _, fields in entries if json.loads(fields["body"]).get("memberships")]


def test_operations_that_waited_for_each_other_all_end_once_nothing_runs() -> None:
    world = nodes(2)
    world.submit(elastic())
    for node in world.nodes.values():
        node.obstinate = True
    asked = ["restart", "suspend", "resume"] * 5
    for number, kind in enumerate(asked):
        operate(world, kind, f"o{number}")
    for key in world.running():
        world.end(key)
    assert [outcome(world, f"o{number}") for number in range(len(asked))] == ["DONE"] * len(asked)
    assert world.job("j")["state"] == "RUNNING"


def test_new_members_are_placed_at_once_after_a_task_that_waited_for_the_same_room() -> None:
    world = nodes(2)
    world.submit(elastic(restart=Restart(RestartOn.ON_FAILURE, 1, 1.0)))
    world.ticket("node-cordon", node="n2")
    world.end(next(key for key in world.nodes["n2"].running), code=1)
    world.advance(2)
    operate(world, "scale", "o1", component="w", size=3)
    assert outcome(world, "o1") == "RESERVING"
    world.add_node("n3", cpu=2)
    assert len(world.running()) == 3 and outcome(world, "o1") == "DONE"


def test_a_job_behind_a_namesake_starts_also_if_that_was_deleted_before_its_ticket_came() -> None:
    world = World()
    world.add_node("n1", cpu=2)
    gone = After("j-deadbeef", AfterState.ENDED, past=True)
    world.submit(Job("j.2", elastic(1).components, ("w",), after=(gone,)))
    assert world.job("j.2")["state"] == "RUNNING"


@pytest.mark.parametrize("takeover", [False, True])
def test_a_task_that_waits_for_its_own_one_may_be_stopped_and_parallelism_holds(takeover: bool) -> None:
    world = World()
    world.add_node("n1", cpu=8)
    array = Component("w", "x", replicas=4)
    world.submit(Job("a", {"w": array}, ("w",)))
    one_by_one = {"w": replace(array, parallelism=1)}
    world.submit(Job("b", one_by_one, ("w",), fail_fast=False, after=(After("a", same_tasks=True),)))
    world.ticket("stop-tasks", id="b-1", tasks=["w.3"])
    if takeover:
        world.takeover()
    for index in (2, 3, 0):
        world.end(f"a-1/w.{index}/1", code=0)
    assert [key for key in world.running() if key.startswith("b")] == ["b-1/w.2/1"]
    world.end("b-1/w.2/1", code=0)
    assert [key for key in world.running() if key.startswith("b")] == ["b-1/w.0/1"]
    world.end("b-1/w.0/1", code=0)
    world.end("a-1/w.1/1", code=0)
    world.end("b-1/w.1/1", code=0)
    assert (world.job("a")["state"], world.job("b")["state"]) == ("SUCCEEDED", "STOPPED")
    assert world.job("b")["counts"] == {"SUCCEEDED": 3, "STOPPED": 1}


def test_an_array_that_follows_tasks_cannot_be_scaled() -> None:
    array = Component("w", "x", replicas=2)
    with pytest.raises(SizeError, match="w: its tasks wait for tasks of another job"):
        check_scaling(Job("b", {"w": array}, ("w",), after=(After("a", same_tasks=True),)), "w", ())
