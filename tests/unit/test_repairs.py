"""Operations that record lost, drained and preempted tasks: one for each event, whatever the texts of reasons are."""

from __future__ import annotations

from typing import Any

import pytest

from grass.model.framework import Framework, FrameworkName
from grass.model.job import Component, Job, Ready
from grass.model.reasons import ReasonCode
from grass.model.resources import Resources
from grass.wire.operation_record import (
    GRASS,
    OPERATION_RECORD,
    Cause,
    OperationKind,
    OperationRecord,
    OperationState,
    Outcome,
)
from master.agent.repairs import REPAIR_SECONDS
from master.agent.step import Limits
from tests.support.said import report
from tests.support.world import CALM, EPOCH, World

LOST_AFTER = 30.0
TORCHRUN = Framework(FrameworkName.TORCHRUN)
WAITS = "its tasks start again elsewhere"


def job(*components: str, replicas: int = 2, **more: Any) -> Job:
    settings = {"min": 1, "max": 8, "resources": Resources(1000), **more}
    parts = {name: Component(name, "x", replicas=replicas, **settings) for name in components}
    return Job("j", parts, components, preemptible=True)


def world_of(nodes: int, cpu: float = 1) -> World:
    world = World(Limits(lost_after=LOST_AFTER))
    for number in range(1, nodes + 1):
        world.add_node(f"n{number}", cpu=cpu)
    return world


def lose(world: World, *names: str) -> None:
    for name in names:
        world.nodes[name].connected = False
    world.advance(LOST_AFTER + 5, CALM)


def repairs(world: World) -> list[OperationRecord]:
    return sorted((each for each in world.api.operations("j-1") if each.repairs), key=lambda each: each.number)


def told(world: World) -> list[tuple[OperationKind, str | None, tuple[str, ...]]]:
    return [(each.kind, each.component, each.added) for each in repairs(world)]


def test_a_lost_node_is_one_operation_with_all_its_tasks_and_all_that_users_read() -> None:
    world = world_of(2, cpu=2)
    world.submit(job("w", replicas=4))
    on_second = tuple(name for name, task in sorted(world.tasks("j-1").items()) if task["node"] == "n2")
    assert len(on_second) == 2
    lose(world, "n2")
    [found] = repairs(world)
    silence = found.filed - EPOCH - 1000.0
    assert found == OperationRecord(
        id="r1",
        job_id="j-1",
        component="w",
        kind=OperationKind.REPLACE,
        state=OperationState.STARTING,
        author=GRASS,
        reason=f"node n2 was silent for {silence:.0f} s",
        filed=found.filed,
        deadline=found.deadline,
        message=WAITS,
        added=on_second,
        number=1,
        cause=Cause(ReasonCode.NODE_LOST, "n2"),
    )
    assert found.deadline is not None
    assert found.deadline.at == found.filed - EPOCH + REPAIR_SECONDS


def test_each_lost_node_is_an_operation_of_its_own() -> None:
    world = world_of(3)
    world.submit(job("w", replicas=3))
    lose(world, "n2", "n3")
    assert told(world) == [(OperationKind.REPLACE, "w", ("w.1",)), (OperationKind.REPLACE, "w", ("w.2",))]
    assert [each.cause for each in repairs(world)] == [Cause(ReasonCode.NODE_LOST, name) for name in ("n2", "n3")]


def test_each_component_on_a_lost_node_has_an_operation_of_its_own() -> None:
    world = world_of(2, cpu=2)
    world.submit(job("v", "w", replicas=2))
    on_second = {name for name, task in world.tasks("j-1").items() if task["node"] == "n2"}
    lose(world, "n2")
    found = told(world)
    assert {component for _, component, _ in found} == {name.partition(".")[0] for name in on_second} == {"v", "w"}
    assert {task for _, _, added in found for task in added} == on_second
    assert all(task.startswith(f"{component}.") for _, component, added in found for task in added)


def test_a_node_that_is_lost_again_after_a_repair_is_another_operation() -> None:
    world = world_of(2)
    world.submit(job("w"))
    lose(world, "n2")
    world.nodes["n2"].connected = True
    world.nodes["n2"].hello()
    world.run()
    assert [each.outcome for each in repairs(world)] == [Outcome.DONE]
    lose(world, "n2")
    assert told(world) == [(OperationKind.REPLACE, "w", ("w.1",))] * 2
    assert [each.outcome for each in repairs(world)] == [Outcome.DONE, None]


def test_a_repair_ends_with_the_generation_of_the_members_once_all_tasks_are_back() -> None:
    world = world_of(3)
    world.submit(job("w"))
    lose(world, "n2")
    [found] = repairs(world)
    assert (found.outcome, found.message) == (Outcome.DONE, "all tasks are back")
    assert found.generation == world.nodes["n1"].membership["j-1/w"].generation > 1


def test_a_repair_that_finds_no_node_ends_in_time_and_its_tasks_wait_on() -> None:
    world = world_of(2)
    world.submit(job("w"))
    lose(world, "n2")
    world.advance(599, CALM)
    assert [each.outcome for each in repairs(world)] == [None]
    world.advance(10, CALM)
    [found] = repairs(world)
    assert (found.outcome, world.tasks("j-1")["w.1"]["state"]) == (Outcome.TIMED_OUT, "LOST")
    assert found.message == "some tasks still wait after 600 s; they start as soon as a node has enough free resources"


@pytest.mark.parametrize("framework", [None, TORCHRUN], ids=["plain", "framework"])
def test_of_components_of_one_size_only_those_of_a_framework_have_repairs(framework: Framework | None) -> None:
    world = world_of(3)
    part = Component("w", "x", replicas=2, framework=framework, resources=Resources(1000))
    world.submit(Job("j", {"w": part}, ("w",)))
    lose(world, "n2")
    assert [cause for each in repairs(world) if (cause := each.cause)] == (
        [Cause(ReasonCode.NODE_LOST, "n2")] if framework else []
    )


def test_a_task_that_was_to_leave_has_no_repair() -> None:
    world = world_of(3)
    world.submit(job("w"))
    world.nodes["n2"].obstinate = True
    world.ticket("scale", id="in", job_id="j-1", component="w", remove=["w.1"])
    assert world.tasks("j-1")["w.1"]["released"]
    lose(world, "n2")
    assert repairs(world) == []


def test_a_task_that_is_no_member_yet_has_no_repair() -> None:
    world = world_of(3)
    world.submit(job("w", ready=Ready(port="p"), ports=("p",)))
    for node, key in (("n1", "j-1/w.0/1"), ("n2", "j-1/w.1/1")):
        world.nodes[node].store.report([report("tasks", {"events": [{"key": key, "event": "ready"}]})])
    world.run()
    world.ticket("scale", id="out", job_id="j-1", component="w", size=3, deadline=500.0)
    assert world.tasks("j-1")["w.2"]["node"] == "n3"
    lose(world, "n3")
    assert [each.id for each in world.api.operations("j-1")] == ["out"]


def test_the_tasks_of_a_job_that_ends_have_no_repairs() -> None:
    world = world_of(2)
    world.submit(job("w"))
    world.nodes["n2"].obstinate = True
    world.ticket("stop", id="j-1")
    lose(world, "n2")
    assert repairs(world) == []


def test_a_repair_goes_on_under_the_next_master_agent() -> None:
    world = world_of(3)
    world.submit(job("w", replicas=3))
    lose(world, "n2")
    world.takeover()
    [found] = repairs(world)
    assert found.cause == Cause(ReasonCode.NODE_LOST, "n2")
    lose(world, "n3")
    assert told(world) == [(OperationKind.REPLACE, "w", ("w.1",)), (OperationKind.REPLACE, "w", ("w.2",))]


def test_a_replacement_of_a_user_whose_reason_reads_like_a_loss_is_no_repair_of_it() -> None:
    sentence = f"node n2 was silent for {LOST_AFTER + 5:.0f} s"
    world = world_of(2)
    world.submit(job("w"))
    world.ticket("replace", id="mine", job_id="j-1", task="w.0", reason=sentence)
    lose(world, "n2")
    mine, loss = sorted(world.api.operations("j-1"), key=lambda each: each.number)
    assert mine.reason == loss.reason == sentence
    assert (mine.id, mine.state, mine.added) == ("mine", OperationState.STARTING, ("w.0",))
    assert (loss.author, loss.added) == (GRASS, ("w.1",))


def test_a_drain_is_an_operation_of_whom_drains_with_one_for_each_node() -> None:
    world = world_of(2, cpu=2)
    world.submit(job("w", replicas=4))
    with world.one_round():
        world.ticket("node-drain", node="n1", deadline=0.0)
        world.ticket("node-drain", node="n2", deadline=0.0, user="bob")
    found = repairs(world)
    assert [(each.kind, each.author, each.reason, each.cause, each.message) for each in found] == [
        (
            OperationKind.DRAIN,
            author,
            f"stopped because node {node} is being drained",
            Cause(ReasonCode.DRAINED, node),
            WAITS,
        )
        for author, node in (("ann", "n1"), ("bob", "n2"))
    ]
    assert sorted(len(each.added) for each in found) == [2, 2]


EVICTED = "its pod was deleted by somebody else"
CLOSED = f"{EVICTED}; machine m1 takes no pods (cordoned in Kubernetes)"


def evict(world: World, *keys: str) -> None:
    """Say that Kubernetes ends pods on a machine that is cordoned."""
    reason = {"code": "evicted", "message": EVICTED, "details": {"machine": "m1"}}
    node = world.nodes["n1"]
    machines = {"machines": [{"name": "m1", "closed": "cordoned in Kubernetes"}]}
    node.store.report([report("offer", {"resources": {"cpu": 8000}, "gpus": [], "machines": machines})])
    node.store.report(
        [report("tasks", {"events": [{"event": "leaving", "key": each, "reason": reason}]}) for each in keys]
    )
    world.run()


def test_pods_that_kubernetes_ends_leave_their_membership_first_and_are_one_operation() -> None:
    world = world_of(1, cpu=8)
    world.submit(job("w", replicas=4))
    evict(world, "j-1/w.1/1", "j-1/w.3/1")
    evict(world, "j-1/w.1/1")  # an agent that starts again says it again
    [found] = repairs(world)
    assert (found.kind, found.author, found.reason, found.added) == (OperationKind.DRAIN, GRASS, CLOSED, ("w.1", "w.3"))
    assert found.cause == Cause(ReasonCode.EVICTED, "m1")
    node = world.nodes["n1"]
    assert [each.task for each in node.membership["j-1/w"].members] == ["w.0", "w.2"]
    assert {key: entry.stop_grace for key, entry in node.desired.items() if entry.stop_grace is not None} == {}
    world.takeover()
    for key in ("j-1/w.1/1", "j-1/w.3/1"):
        node.store.report([report("tasks", {"events": [node.end(key, world.wall, code=None, signal=15)]})])
    world.advance(20, CALM)
    assert [each.outcome for each in repairs(world)] == [Outcome.DONE]
    assert {name: (each["attempt"], each["restarts"]) for name, each in world.tasks("j-1").items()} == {
        **{f"w.{number}": (1, 0) for number in (0, 2)},
        **{f"w.{number}": (2, 0) for number in (1, 3)},
    }
    assert [each.task for each in node.membership["j-1/w"].members] == ["w.0", "w.1", "w.2", "w.3"]


def test_a_task_that_ends_well_while_its_pod_is_ended_has_succeeded() -> None:
    world = world_of(1, cpu=8)
    world.submit(job("w", replicas=2))
    evict(world, "j-1/w.1/1")
    node = world.nodes["n1"]
    node.store.report([report("tasks", {"events": [node.end("j-1/w.1/1", world.wall)]})])
    world.run()
    assert world.tasks("j-1")["w.1"]["state"] == "SUCCEEDED"


def test_a_pod_that_kubernetes_ends_of_a_component_of_one_size_is_told_by_its_end_alone() -> None:
    world = world_of(1, cpu=8)
    part = Component("w", "x", replicas=2, framework=TORCHRUN, resources=Resources(1000))
    world.submit(Job("j", {"w": part}, ("w",)))
    evict(world, "j-1/w.1/1")
    assert repairs(world) == []
    assert [each.task for each in world.nodes["n1"].membership["j-1/w"].members] == ["w.0", "w.1"]


def test_tasks_that_are_preempted_for_two_jobs_are_two_operations() -> None:
    world = world_of(4)
    world.submit(job("w", replicas=4))
    for name in ("high", "higher"):
        world.submit(Job(name, {"h": Component("h", "x", resources=Resources(1000))}, ("h",), priority=9))
    found = repairs(world)
    assert [each.cause for each in found] == [Cause(ReasonCode.PREEMPTED, f"{name}-1") for name in ("high", "higher")]
    assert found[0].reason == "preempted by job high, which has a higher priority"
    assert [(each.kind, each.author) for each in found] == [(OperationKind.REPLACE, GRASS)] * 2


def test_an_operation_that_the_version_before_stored_is_read() -> None:
    text = (
        '{"id":"r1","job_id":"j-1","component":"w","kind":"replace","state":"STARTING","author":"grass",'
        '"reason":"node n2 was silent for 301 s","filed":1.5,"deadline":[7.0,"b"],'
        '"message":"its tasks start again elsewhere","added":["w.1"],"number":1}'
    )
    found = OPERATION_RECORD.decode(text)
    assert (found.cause, found.reason, found.repairs) == (None, "node n2 was silent for 301 s", True)
