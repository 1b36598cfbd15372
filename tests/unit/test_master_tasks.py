"""The master-agent's rules for tasks that end."""

from __future__ import annotations

from typing import Any

import pytest

from grass.model.job import Component, Condition, Job, Ready, Restart, RestartOn
from grass.model.lifecycle import NodeState
from grass.model.reasons import Reason, ReasonCode
from grass.model.resources import Resources
from grass.wire.heartbeat import Heartbeat
from grass.wire.keys import TaskKey
from grass.wire.task_events import TaskEvents, Waiting
from master.agent import addresses
from master.agent.set_aside import Work
from tests.support.said import report, ticket
from tests.support.sessions import sighting
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


@pytest.mark.parametrize("code", [ReasonCode.NODE_STOPPED, ReasonCode.NODE_REBOOTED, ReasonCode.UNRECORDED])
@pytest.mark.parametrize("exit_code", [0, None])
def test_an_end_that_the_machine_caused_is_not_charged_whatever_the_restart_policy(
    code: ReasonCode, exit_code: int | None
) -> None:
    world = World()
    world.add_node("n1")
    job_id = world.submit(Job("j", {"t": Component("t", "x", restart=Restart(RestartOn.NEVER))}, ("t",)))
    world.end(f"{job_id}/t.0/1", code=exit_code, reason=Reason(code, "m").to_wire(), stopped=True)
    assert world.running() == [f"{job_id}/t.0/2"]
    assert world.job("j")["restarts"] == 0


NAMESPACE: dict[str, Any] = {"runtimes": ["kubernetes"], "default_image": "python:3.12"}
OF_KUBERNETES = [
    ReasonCode.EVICTED,
    ReasonCode.NOT_STARTED,
    ReasonCode.UNSCHEDULABLE,
    ReasonCode.NAMESPACE_QUOTA,
]


def ends_without_a_start(world: World, key: str, code: ReasonCode = ReasonCode.NOT_STARTED) -> None:
    world.end(key, code=None, reason=Reason(code, "its pod waits").to_wire(), started=None)


@pytest.mark.parametrize("code", OF_KUBERNETES)
def test_what_kubernetes_did_is_not_charged_and_tried_again_after_a_while(code: ReasonCode) -> None:
    world = World()
    world.add_node("n1", **NAMESPACE)
    job_id = world.submit(Job("j", {"t": Component("t", "x", restart=Restart(RestartOn.NEVER))}, ("t",)))
    for attempt in range(1, 4):
        world.end(f"{job_id}/t.0/{attempt}", code=None, reason=Reason(code, "its pod waits").to_wire())
        assert not world.running()
        [task] = world.tasks(job_id).values()
        assert task["reason"]["message"] == "its pod waits; restarts in 5 s"
        world.advance(6.0)
        assert world.running() == [f"{job_id}/t.0/{attempt + 1}"]
    assert world.job("j")["restarts"] == 0


def test_a_task_that_never_starts_in_a_namespace_is_tried_there_less_and_less_often() -> None:
    world = World()
    node = world.add_node("n1", **NAMESPACE)
    node.stuck = True
    job_id = world.submit(Job("j", {"t": Component("t", "x")}, ("t",)))
    waits = []
    for attempt in range(1, 8):
        ends_without_a_start(world, f"{job_id}/t.0/{attempt}")
        begun = world.now
        while not node.waits(f"{job_id}/t.0/{attempt + 1}"):
            world.advance(1.0)
        waits.append(world.now - begun)
    assert waits == [5, 10, 20, 40, 60, 60, 60]
    node.stuck = False
    world.advance(1.0)
    assert world.running() == [f"{job_id}/t.0/8"]
    world.end(f"{job_id}/t.0/8", code=None, reason=Reason(ReasonCode.EVICTED, "evicted").to_wire())
    [task] = world.tasks(job_id).values()
    assert task["reason"]["message"] == "evicted; restarts in 5 s"


def test_a_task_that_does_not_start_in_a_namespace_goes_to_another_node_that_fits() -> None:
    world = World()
    there = world.add_node("n1", cpu=2, **NAMESPACE)
    other = world.add_node("n2", cpu=4)
    there.stuck = True
    job_id = world.submit(Job("j", {"t": Component("t", "x")}, ("t",)))
    assert there.waits(f"{job_id}/t.0/1")
    ends_without_a_start(world, f"{job_id}/t.0/1")
    assert list(other.running) == [f"{job_id}/t.0/2"]
    assert world.job("j")["restarts"] == 0


def gang_of_two(world: World) -> str:
    component = Component("t", "x", replicas=2, restart=Restart(RestartOn.NEVER))
    return world.submit(Job("j", {"t": component}, ("t",), gang=("t",)))


@pytest.mark.parametrize("takeover", [False, True])
def test_a_gang_that_kubernetes_does_not_start_whole_is_released_and_tried_again_whole(takeover: bool) -> None:
    world = World()
    there = world.add_node("n1", cpu=2.2, **NAMESPACE)
    there.stuck_tasks = {"t.0"}
    job_id = gang_of_two(world)
    assert world.running() == [f"{job_id}/t.1/1"] and there.launch[f"{job_id}/t"].gang_tasks == 2
    if takeover:
        world.takeover()
    ends_without_a_start(world, f"{job_id}/t.0/1", ReasonCode.UNSCHEDULABLE)
    assert not world.running() and not there.waits(f"{job_id}/t.1/2")
    assert world.job("j")["counts"] == {"PENDING": 2}
    reasons = {key: task["reason"] for key, task in world.tasks(job_id).items()}
    assert reasons["t.1"]["code"] == "gang-incomplete"
    assert reasons["t.1"]["message"] == (
        "its gang was released, because t.0 could not start (its pod waits); all start together again"
    )
    world.advance(4.0)
    waits = world.job("j")["components"]["t"]["reason"]
    assert waits["message"] == "gang starts together, once 1 task of it may start again"
    there.stuck_tasks = set()
    world.advance(2.0)
    assert world.running() == [f"{job_id}/t.0/2", f"{job_id}/t.1/2"]
    assert world.job("j")["restarts"] == 0


def test_a_gang_that_is_released_goes_to_another_node_whole() -> None:
    world = World()
    there = world.add_node("n1", cpu=2.2, **NAMESPACE)
    there.stuck_tasks = {"t.0"}
    job_id = gang_of_two(world)
    other = world.add_node("n2", cpu=2)
    ends_without_a_start(world, f"{job_id}/t.0/1", ReasonCode.UNSCHEDULABLE)
    assert sorted(other.running) == [f"{job_id}/t.0/2", f"{job_id}/t.1/2"]


def test_a_gang_that_ran_whole_goes_on_while_one_of_its_tasks_finds_no_machine_again() -> None:
    world = World()
    there = world.add_node("n1", cpu=2.2, **NAMESPACE)
    job_id = gang_of_two(world)
    evicted = Reason(ReasonCode.EVICTED, "evicted").to_wire()
    there.stuck_tasks = {"t.0"}
    world.end(f"{job_id}/t.0/1", code=None, reason=evicted)
    world.advance(6.0)
    assert there.waits(f"{job_id}/t.0/2") and there.launch[f"{job_id}/t"].gang_tasks == 2
    ends_without_a_start(world, f"{job_id}/t.0/2", ReasonCode.UNSCHEDULABLE)
    assert world.running() == [f"{job_id}/t.1/1"]


@pytest.mark.parametrize("takeover", [False, True])
def test_while_the_other_node_is_full_it_waits_and_is_tried_in_the_namespace_again(takeover: bool) -> None:
    world = World()
    there = world.add_node("n1", cpu=2, **NAMESPACE)
    there.stuck = True
    job_id = world.submit(Job("j", {"t": Component("t", "x")}, ("t",)))
    world.add_node("n2", cpu=4)
    world.submit(Job("full", {"t": Component("t", "x", resources=Resources(cpu=4000))}, ("t",)))
    ends_without_a_start(world, f"{job_id}/t.0/1")
    assert not there.waits(f"{job_id}/t.0/2")
    reason = world.job("j")["components"]["t"]["reason"]
    assert reason["message"].startswith("waits for free resources: n2: 1 cpu short; n1: could not start it lately")
    world.advance(58.0)
    assert not there.waits(f"{job_id}/t.0/2")
    if takeover:  # a new master-agent has forgotten it
        world.takeover()
    world.advance(4.0)
    assert there.waits(f"{job_id}/t.0/2")


def a_full_node(world: World) -> None:
    world.add_node("n2", cpu=4)
    world.submit(Job("full", {"t": Component("t", "x", resources=Resources(cpu=4000))}, ("t",)))


def test_tasks_that_do_not_start_together_are_one_failure() -> None:
    world = World()
    there = world.add_node("n1", cpu=5.5, **NAMESPACE)
    there.stuck = True
    job_id = world.submit(Job("j", {"t": Component("t", "x", replicas=5)}, ("t",)))
    a_full_node(world)
    for index in range(5):
        ends_without_a_start(world, f"{job_id}/t.{index}/1")
    world.advance(58.0)
    assert not any(there.waits(f"{job_id}/t.{index}/2") for index in range(5))
    world.advance(4.0)
    assert all(there.waits(f"{job_id}/t.{index}/2") for index in range(5))


def test_an_eviction_does_not_bring_a_component_back_to_a_node_that_it_stays_away_from() -> None:
    world = World()
    there = world.add_node("n1", cpu=2.2, **NAMESPACE)
    job_id = world.submit(Job("j", {"t": Component("t", "x", replicas=2)}, ("t",)))
    evicted = Reason(ReasonCode.EVICTED, "evicted").to_wire()
    world.end(f"{job_id}/t.0/1", code=None, reason=evicted)
    there.stuck = True
    world.advance(6.0)
    a_full_node(world)
    ends_without_a_start(world, f"{job_id}/t.0/2")
    world.end(f"{job_id}/t.1/1", code=None, reason=evicted)
    world.advance(30.0)
    assert not there.waits(f"{job_id}/t.0/3") and not there.waits(f"{job_id}/t.1/2")


def test_tasks_of_earlier_nodes_and_of_nodes_with_an_image_need_none() -> None:
    """A node of an earlier version says nothing of a default image: it runs tasks without one if it runs processes."""
    world = World()
    world.add_node("n1", cpu=2.2, runtimes=["kubernetes"])
    world.submit(Job("j", {"t": Component("t", "x")}, ("t",)))
    assert not world.running()
    reason = world.job("j")["reason"]
    assert (reason["code"], reason["message"]) == (
        "constraints",
        "no node matches its constraints: n1: needs an image there",
    )
    world.submit(Job("i", {"t": Component("t", "x", image="i")}, ("t",)))
    world.end("i-1/t.0/1")
    world.nodes["n1"].about["default_image"] = "python:3.12"
    world.nodes["n1"].hello()
    world.run()
    assert world.running() == ["j-1/t.0/1"]
    world.takeover()
    world.submit(Job("k", {"t": Component("t", "x")}, ("t",)))
    assert world.running() == ["j-1/t.0/1", "k-1/t.0/1"]


def test_what_grass_adds_to_a_pod_is_allocated_with_its_task_and_released_also_after_a_restart() -> None:
    world = World()
    world.add_node("n1", cpu=2, **NAMESPACE)
    world.submit(Job("j", {"t": Component("t", "x", image="i", resources=Resources(cpu=1000, memory=1 << 20))}, ("t",)))
    pod = Resources(cpu=1100, memory=(1 << 20) + (32 << 20))
    assert world.cluster.nodes["n1"].allocated == pod
    world.takeover()
    assert world.cluster.nodes["n1"].allocated == pod
    world.end("j-1/t.0/1")
    assert world.cluster.nodes["n1"].allocated == Resources()


def test_a_task_that_pods_cannot_run_goes_elsewhere() -> None:
    world = World()
    world.add_node("n1", cpu=64, **NAMESPACE)
    world.submit(Job("j", {"t": Component("t", "x", image="i", cwd="sub")}, ("t",)))
    message = world.job("j")["reason"]["message"]
    assert message.endswith("n1: a relative `cwd` is in the share, which pods there do not have")
    machine = world.add_node("n2")
    assert list(machine.running) == ["j-1/t.0/1"]


def test_a_program_that_a_default_image_lacks_is_missed_in_that_image() -> None:
    world = World()
    world.add_node("n1", **NAMESPACE)
    job_id = world.submit(Job("j", {"t": Component("t", "nosuch --now")}, ("t",)))
    world.end(f"{job_id}/t.0/1", code=127)
    [task] = world.tasks(job_id).values()
    assert task["reason"]["message"].endswith("nosuch, which must be on the PATH in image python:3.12")


def test_a_task_that_ended_well_while_the_share_was_away_succeeds_and_says_so() -> None:
    world = World()
    world.add_node("n1")
    job_id = world.submit(Job("j", {"t": Component("t", "x")}, ("t",)))
    world.end(f"{job_id}/t.0/1", reason={"code": "share", "message": "the share did not answer", "details": {}})
    assert world.job("j")["state"] == "SUCCEEDED"
    [task] = world.tasks(job_id).values()
    assert (task["state"], task["reason"]["message"]) == ("SUCCEEDED", "the share did not answer")


def test_a_task_that_could_not_be_shown_the_share_starts_again_without_being_charged() -> None:
    world = World()
    world.add_node("n1")
    job_id = world.submit(Job("j", {"t": Component("t", "x")}, ("t",)))
    reason = {"code": "share", "message": "cannot make its view", "details": {}}
    world.end(f"{job_id}/t.0/1", code=126, reason=reason, started=None)
    assert world.job("j")["state"] == "RUNNING" and not world.running()
    world.advance(2.0)
    assert world.running() == [f"{job_id}/t.0/2"]
    assert world.job("j")["restarts"] == 0


@pytest.mark.parametrize("takeover", [False, True])
def test_a_component_that_has_run_says_so_while_its_killed_task_waits(takeover: bool) -> None:
    world = World()
    world.add_node("n1")
    restart = Restart(RestartOn.ALWAYS, limit=None, backoff=60.0)
    parts = {"t": Component("t", "x", restart=restart), "u": Component("u", "x", depends_on={"t": Condition.SUCCEEDED})}
    job_id = world.submit(Job("j", parts, ("t",)))
    world.end(f"{job_id}/t.0/1", signal=9)
    if takeover:
        world.takeover()
    view = world.job("j")
    assert view["components"]["t"]["counts"] == {"PENDING": 1}
    assert (view["components"]["t"]["ran"], view["components"]["u"]["ran"]) == (True, False)


def test_more_tasks_than_a_node_has_ports_wait_and_say_so() -> None:
    world = World()
    world.add_node("n1")
    component = Component("t", "x", replicas=12_000, resources=Resources(), ports=("p",))
    world.api.submit(
        Job("j", {"t": component}, ("t",)),
        job_id="j-1",
        user="ann",
        now=world.wall,
        warnings=[],
        sighting=sighting(world.api),
    )
    while world.round() or world.agenda.wait(world.now, 1.0) == 0:
        pass
    view = world.job("j")
    assert view["counts"] == {"ASSIGNED": 10_800, "PENDING": 1_200}
    assert "ports short" in view["components"]["t"]["reason"]["message"]


def test_many_ends_in_one_round_make_the_addresses_of_their_job_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    node = world.add_node("n1", cpu=64)
    component = Component("t", "x", replicas=40, resources=Resources(), ports=("p",))
    world.submit(Job("j", {"t": component, "u": Component("u", "x", resources=Resources())}, ("t",)))
    made: list[str] = []
    text_of = addresses.addresses_text
    monkeypatch.setattr(addresses, "addresses_text", lambda *about: made.append(text_of(*about)) or made[-1])
    ended = [node.end(f"j-1/t.{index}/1", world.wall) for index in range(30)]
    node.store.report([report("tasks", {"events": ended})])
    world.run()
    assert [len(text.splitlines()) for text in made] == [10]
    assert node.addresses["j-1"] == made[0]


def test_a_job_whose_last_tasks_end_together_leaves_no_addresses() -> None:
    world = World()
    node = world.add_node("n1")
    world.submit(Job("j", {"t": Component("t", "x", replicas=2, resources=Resources(), ports=("p",))}, ("t",)))
    node.store.report([report("tasks", {"events": [node.end(f"j-1/t.{index}/1", world.wall) for index in range(2)]})])
    world.run()
    assert world.job("j")["state"] == "SUCCEEDED"
    assert world.backend.hgetall(world.keys.addresses("n1")) == {}


def test_why_a_task_is_not_ready_is_its_reason_until_it_is() -> None:
    world = World()
    node = world.add_node("n1")
    server = Component("s", "x", resources=Resources(), ready=Ready(log="up"))
    world.submit(Job("j", {"s": server, "w": Component("w", "x", depends_on={"s": Condition.READY})}, ("w",)))
    reason = {"code": "not-ready", "message": "not ready yet: nothing listens", "details": {}}
    for event in ({"event": "waiting", "reason": reason}, {"event": "ready"}):
        node.store.report([report("tasks", {"events": [{"key": "j-1/s.0/1", **event}]})])
        world.run()
        tasks = world.tasks("j-1")
        assert tasks["s.0"]["state"] == "RUNNING"
        assert tasks["s.0"]["reason"] == event.get("reason")
    assert "w.0" in tasks
    node.store.report([report("tasks", {"events": [{"key": "j-1/s.0/1", "event": "waiting", "reason": reason}]})])
    world.run()
    assert world.tasks("j-1")["s.0"]["reason"] is None


def test_why_a_task_does_not_end_is_its_reason_until_it_does_and_its_node_takes_no_others() -> None:
    world = World()
    node = world.add_node("n1")
    world.submit(ONE)
    stuck = Reason(ReasonCode.STUCK, "process 7 (sh) of a task does not end after KILL")
    node.store.report([TaskEvents((Waiting("j-1/t.0/1", stuck),)), Heartbeat(conditions=(stuck,))])
    world.run()
    assert world.api.tasks("j-1")[TaskKey("t", 0)].reason == stuck
    quarantined = world.api.node("n1")
    assert quarantined is not None and quarantined.state is NodeState.QUARANTINED
    assert quarantined.reason is not None and quarantined.reason.code is ReasonCode.STUCK
    node.store.report([Heartbeat()])
    world.end("j-1/t.0/1")
    freed = world.api.node("n1")
    assert world.job("j")["state"] == "SUCCEEDED"
    assert freed is not None and freed.state is NodeState.READY


ONE = Job("j", {"t": Component("t", "x", resources=Resources())}, ("t",))


def test_a_name_goes_back_to_the_run_before_when_the_latest_is_deleted() -> None:
    world = World()
    world.add_node("n1")
    for run in (1, 2):
        world.submit(ONE, run)
        world.end(f"j-{run}/t.0/1")
    world.ticket("delete", id="j-2")
    assert world.job("j")["id"] == "j-1"
    world.takeover()
    world.ticket("delete", id="j-1")
    assert world.api.job("j") is None


def test_a_run_that_is_deleted_does_not_take_the_name_of_the_next_one_along() -> None:
    world = World()
    world.add_node("n1")
    world.submit(ONE)
    world.end("j-1/t.0/1")
    world.api.ticket(ticket("delete", id="j-1", user="ann"))
    world.submit(ONE, 2)
    assert world.job("j")["id"] == "j-2"


def test_addresses_that_cannot_be_made_are_blamed_on_their_job() -> None:
    world = World()
    world.add_node("n1")
    world.submit(Job("j", {"t": Component("t", "x", resources=Resources(), ports=("p",))}, ("t",)))
    step = world.step()
    addresses.publish_addresses(step, world.cluster.jobs["j-1"])
    del world.cluster.nodes["n1"]
    with pytest.raises(KeyError):
        addresses.send_addresses(step)
    assert step.work == Work("plan", "j-1")


def test_after_a_restore_what_cannot_be_known_is_said_task_by_task() -> None:
    world = World()
    node = world.add_node("n1")
    job_id = world.submit(Job("j", {"t": Component("t", "x")}, ("t",)))
    world.end(f"{job_id}/t.0/1", code=None, reason=Reason(ReasonCode.UNRECORDED, "nothing is known").to_wire())
    later = [{"event": "unclaimed", "key": "later-1/t.0/1"}]
    later.append({"event": "unclaimed", "key": "brief-1/t.0/2", "ended": world.wall, "code": 3})
    node.store.report([report("tasks", {"events": later})])
    world.run()
    again = [event["message"] for event in world.events() if event["kind"] == "task-restarts"]
    assert again == ["task j.t.0: nothing is known; it runs again"]
    said = [event["message"] for event in world.events() if event["kind"] == "task-unclaimed"]
    assert [text.partition(":")[0] for text in said] == ["task later.t.0", "task brief.t.0"]
    assert "it is stopped" in said[0] and "ended with exit code 3" in said[1]
    assert world.running() == [f"{job_id}/t.0/2"]
