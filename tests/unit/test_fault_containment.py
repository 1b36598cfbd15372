"""A defect that deciding about one job runs into harms no other job: the real loop, with a planner that fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from grass import __version__
from grass.config import ClusterConfig
from grass.model.job import Component, Job
from grass.model.lifecycle import JobState, NodeState
from grass.model.reasons import Reason, ReasonCode
from grass.model.resources import Resources
from grass.model.schedule import Schedule, ScheduleKind
from grass.store.accounts import MemoryAccounts
from grass.store.agent_store import AgentStore
from grass.store.api_store import ApiStore
from grass.store.keys import Keys
from grass.store.node_store import NodeStore
from grass.system.clock import steady, wall
from grass.wire import codec
from grass.wire.job_record import JobRecord
from grass.wire.schedule_record import ScheduleRecord, ScheduleState
from grass.wire.tickets import PlanJob, StartSchedule, StopJob
from grass.wire.version import PROTOCOL, REVISION
from master.agent.fault_containment import contain, retry_set_aside
from master.agent.loop import MasterAgent
from master.agent.set_aside import SetAsideWork, Work
from master.planning.decide import decide
from master.planning.model import Placement, Plan, Snapshot
from tests.doubles.memory_backend import MemoryBackend
from tests.support.said import report
from tests.support.sessions import sighting
from tests.support.world import SimulatedNode, World

CHECK = 0.1
"""Seconds between two checks of the master-agent."""


class DefectError(Exception):
    pass


class Life:
    """A master-agent, one node with room for 16 tasks, and a planner that fails as long as ``broken`` says so."""

    def __init__(self, folder: Path, planner: Callable[[Snapshot], Plan] | None = None) -> None:
        config = ClusterConfig("test", "local", str(folder), str(folder))
        config = replace(config, master=replace(config.master, own_node="n1", check_interval=CHECK))
        backend, keys = MemoryBackend(), Keys("grass:test:")
        self.backend, self.keys = backend, keys
        self.api = ApiStore(backend, keys)
        self.broken: set[str] = set()
        """Names of jobs; ``*``: any job."""
        self.calls = 0
        self.ahead = 0.0
        """Seconds by which the agent's clock is ahead."""
        self._planner = planner or self._fail_on_broken
        self.store = AgentStore(backend, keys)
        self.agent = MasterAgent(
            config,
            self.store,
            MemoryAccounts(),
            lambda: None,
            decide=lambda view: self._planner(view),
            steady=lambda: steady() + self.ahead,
        )
        self.node = SimulatedNode("n1", NodeStore(backend, keys, "n1"), Resources(16_000, 16 << 30))
        self.node.about["version"] = __version__
        self.node.hello()
        self.agent.start("test")

    def _fail_on_broken(self, view: Snapshot) -> Plan:
        self.calls += 1
        if any("*" in self.broken or queued.id.rpartition("-")[0] in self.broken for queued in view.queue):
            raise DefectError("the planner met what it does not know")
        return decide(view)

    def round(self) -> None:
        rounds = iter((False, True))
        self.agent.run(lambda: next(rounds))

    def until(self, condition: Callable[[], bool]) -> None:
        end = steady() + 20
        while not condition():
            assert steady() < end, self.events()
            self.round()
            self.node.pump(wall())

    def let_pass(self, seconds: float) -> None:
        """Move the agent's clock on by one check after the other."""
        for _ in range(round(seconds / CHECK)):
            self.ahead += CHECK
            self.round()
            self.node.pump(wall())

    def submit(self, name: str, tasks: int = 1) -> None:
        component = Component("t", "x", replicas=tasks, resources=Resources(1000), grace=0.0)
        self.api.submit(
            Job(name, {"t": component}, ("t",)),
            job_id=f"{name}-1",
            user="ann",
            now=wall(),
            warnings=[],
            sighting=sighting(self.api, name),
        )

    def end(self, key: str) -> None:
        self.node.store.report([report("tasks", {"events": [self.node.end(key, wall())]})])

    def job(self, name: str) -> JobRecord:
        record = self.api.job(name)
        assert record is not None
        return record

    def runs(self, name: str) -> bool:
        return any(key.startswith(f"{name}-1/") for key in self.node.running)

    def events(self, kind: str = "") -> list[str]:
        return [event.record.message for event in self.api.events() if kind in ("", event.record.kind)]


def code(reason: Reason | None) -> ReasonCode | None:
    return reason and reason.code


@pytest.fixture
def life(tmp_path: Path) -> Life:
    return Life(tmp_path)


def in_flight(life: Life) -> None:
    """Jobs that run, one of which ends, one is stopped, and another that is submitted: all in the next round."""
    for name in ("ends", "stops", "stays"):
        life.submit(name)
    life.until(lambda: len(life.node.running) == 3)
    life.broken = {"bad"}
    life.submit("bad", tasks=2)
    life.end("ends-1/t.0/1")
    life.api.ticket(StopJob("stops-1", "ann"))
    life.submit("new")


def all_arrived(life: Life) -> bool:
    ended = life.job("ends").state is JobState.SUCCEEDED and life.job("stops").state is JobState.STOPPED
    return ended and life.runs("new") and life.runs("stays")


def test_a_job_on_which_the_planner_fails_is_set_aside_and_nothing_of_others_is_lost(life: Life) -> None:
    in_flight(life)
    life.until(lambda: all_arrived(life))
    bad = life.job("bad")
    assert bad.state is JobState.QUEUED
    assert code(bad.reason) is code(bad.components["t"].reason) is ReasonCode.SET_ASIDE
    assert "DefectError: the planner met what it does not know" in str(bad.reason)
    assert len(life.events("job-set-aside")) == 1


def test_what_was_set_aside_is_tried_again_when_something_changes_and_not_before(life: Life) -> None:
    in_flight(life)
    life.until(lambda: all_arrived(life))
    before = life.calls
    life.let_pass(1.5)
    assert life.calls <= before + 1, "it spins"
    life.broken.clear()
    life.end("stays-1/t.0/1")
    life.let_pass(3.0)
    life.until(lambda: life.runs("bad") and life.job("bad").state is JobState.RUNNING)
    assert life.job("bad").reason is None


def test_work_is_tried_again_after_its_wait_and_only_once_something_has_changed() -> None:
    aside, work = SetAsideWork(), Work("plan", "bad-1")
    left = aside.add(work, DefectError(), 100.0)
    assert aside.take_due(left.until + 3600) == []
    aside.epoch += 1
    assert aside.take_due(left.until - 0.1) == []
    assert aside.take_due(left.until) == [work] and work not in aside
    assert aside.add(work, DefectError(), 200.0).until - 200 == 2 * (left.until - 100)


def test_a_job_that_is_set_aside_can_be_stopped(life: Life) -> None:
    in_flight(life)
    life.until(lambda: all_arrived(life))
    life.api.ticket(StopJob("bad-1", "ann"))
    life.until(lambda: life.job("bad").state is JobState.STOPPED)


def test_ends_and_stops_are_obeyed_while_the_planner_fails_on_everything(life: Life) -> None:
    in_flight(life)
    life.broken = {"*"}
    life.until(lambda: life.job("ends").state is JobState.SUCCEEDED and life.job("stops").state is JobState.STOPPED)
    life.until(lambda: code(life.job("new").reason) is ReasonCode.SET_ASIDE)


def test_a_plan_that_cannot_be_carried_out_sets_its_job_aside_and_leaves_no_trace(tmp_path: Path) -> None:
    def planner(view: Snapshot) -> Plan:
        plan = decide(view)
        for queued in view.queue:
            if queued.id == "bad-1":
                plan.placements.append(Placement("bad-1", "t", "nowhere", 1))
        return plan

    life = Life(tmp_path, planner)
    in_flight(life)
    life.until(lambda: all_arrived(life))
    assert code(life.job("bad").reason) is ReasonCode.SET_ASIDE
    assert life.job("bad").state is JobState.QUEUED, "the half of the plan that was done is forgotten"
    node = life.api.node("n1")
    assert node is not None and node.free.cpu == 14_000


def test_a_ticket_that_cannot_be_taken_is_refused_alone(life: Life) -> None:
    in_flight(life)
    job = Job("tick", {"t": Component("t", "x")}, ("t",))
    broken = Schedule("tick", ScheduleKind.CRON, (job,), "* * * * *", "Nowhere/Land")
    life.api.ticket(StartSchedule(broken, "ann"))
    life.api.ticket(StopJob("stays-1", "ann"))
    life.until(lambda: life.job("stays").state is JobState.STOPPED)
    life.until(lambda: life.job("ends").state is JobState.SUCCEEDED and life.runs("new"))
    assert life.events("message-refused") == [
        "schedule-start: refused because of an internal error; see the master-agent's log"
    ]
    assert life.api.schedules() == []


def test_a_due_time_that_cannot_be_obeyed_is_put_off_and_the_rest_goes_on(tmp_path: Path) -> None:
    life = Life(tmp_path)
    job = Job("tick", {"t": Component("t", "x")}, ("t",))
    broken = Schedule("tick", ScheduleKind.CRON, (job,), "* * * * *", "Nowhere/Land")
    record = ScheduleRecord(
        name="tick", state=ScheduleState.ACTIVE, kind=ScheduleKind.CRON, user="ann", next=1.0, spec=broken
    )
    life.backend.apply([("HSET", life.keys.schedules, "tick", codec.encode(record))])
    life.agent.start("again")
    in_flight(life)
    life.until(lambda: all_arrived(life))
    assert len(life.events("set-aside")) <= 3, "it spins"


def test_a_question_on_which_the_planner_fails_is_answered(life: Life) -> None:
    life.broken = {"?", ""}
    life.api.ticket(PlanJob("q", Job("bad", {"t": Component("t", "x")}, ("t",)), "ann"))
    life.submit("other")
    life.until(lambda: life.runs("other") and life.backend.newest(life.keys.plans) is not None)
    newest = life.backend.newest(life.keys.plans)
    assert newest is not None and "set-aside" in newest[1]["body"]


def test_unknown_tickets_and_reports_are_refused_by_name(life: Life) -> None:
    life.until(lambda: life.api.node("n1") is not None)
    life.backend.apply([("XADD", life.keys.tickets, 0, "body", '{"kind":"dance","user":"ann"}')])
    life.backend.apply([("XADD", life.keys.tickets, 0, "body", '{"kind":"stop","id":7}')])
    life.backend.apply([("XADD", life.keys.reports("n1"), 0, "body", '{"kind":"song"}')])
    life.until(lambda: len(life.events("ticket-refused")) == 2 and len(life.events("report-refused")) == 1)
    assert "ticket dance: refused; kind: Invalid value 'dance'" in life.events("ticket-refused")[0]
    assert "ticket stop: refused; id: Expected str, got int" in life.events("ticket-refused")[1]
    assert "node n1: report song refused" in life.events("report-refused")[0]


def test_an_event_that_names_no_attempt_is_refused_and_those_beside_it_are_taken(life: Life) -> None:
    life.submit("one")
    life.until(lambda: life.runs("one"))
    events = [{"event": "ready", "key": "what is this"}, life.node.end("one-1/t.0/1", wall())]
    life.node.store.report([report("tasks", {"events": events})])
    life.until(lambda: life.job("one").state is JobState.SUCCEEDED)
    assert "not an attempt key: 'what is this'" in life.events("report-refused")[0]


@pytest.mark.parametrize("event", ["ended", "drained", "ready"])
def test_what_a_node_reports_of_a_task_on_another_node_changes_nothing(event: str) -> None:
    world = World()
    thief, owner = world.add_node("n1", cpu=1), world.add_node("n2", cpu=2)
    job_id = world.submit(Job("j", {"t": Component("t", "x", resources=Resources(2000))}, ("t",)))
    [key], before = world.running(), world.tasks(job_id)
    assert key in owner.running
    forged = thief.end(key, world.wall, code=1) if event == "ended" else {"event": event, "key": key}
    thief.store.report([report("tasks", {"events": [forged]})])
    world.run()
    assert (world.running(), world.tasks(job_id)) == ([key], before)
    world.end(key)
    assert world.job("j")["state"] == "SUCCEEDED"


@pytest.mark.parametrize("more", ["", ',"boot_id":7'])
def test_a_node_of_another_protocol_is_quarantined_until_it_speaks_this_one(life: Life, more: str) -> None:
    life.submit("stays")
    life.until(lambda: life.runs("stays"))
    hello = codec.encode(report("hello", {**HELLO, "version": "9.9"})).replace(
        f'"protocol":{PROTOCOL}', f'"protocol":99{more}'
    )
    life.backend.apply([("XADD", life.keys.reports("n1"), 0, "kind", "hello", "body", hello)])
    life.until(lambda: state(life) is NodeState.QUARANTINED)
    node = life.api.node("n1")
    assert node is not None and code(node.reason) is ReasonCode.PROTOCOL
    assert "speaks protocol 99 (Grass 9.9)" in str(node.reason) and f"speaks protocol {PROTOCOL}" in str(node.reason)
    assert life.runs("stays")
    life.node.hello()
    life.until(lambda: state(life) is NodeState.READY)


def test_a_node_of_another_build_of_the_same_version_gets_no_tasks_until_it_has_this_one(life: Life) -> None:
    """What the master sends may have fields that the node does not heed."""
    life.node.about["revision"] = REVISION - 1
    life.node.hello()
    life.until(lambda: state(life) is NodeState.QUARANTINED)
    node = life.api.node("n1")
    assert node is not None and code(node.reason) is ReasonCode.VERSION and "another build of Grass" in str(node.reason)
    life.node.about["revision"] = REVISION
    life.node.hello()
    life.until(lambda: state(life) is NodeState.READY)


HELLO = {"boot_id": "boot-1", "version": "0", "address": "10.0.0.1", "api_port": 1, "resources": {"cpu": 16_000}}


def state(life: Life) -> NodeState | None:
    node = life.api.node("n1")
    return node and node.state


def test_looks_whether_to_try_again_do_not_add_up() -> None:
    """Two jobs that fail whenever they are tried, for an hour in which something happens every second."""
    world = World()
    works = [Work("plan", "a-1"), Work("plan", "b-1")]
    contain(world.step(), works[0], DefectError())
    for _ in range(3):
        contain(world.step(), works[1], DefectError())
    for _ in range(3600):
        world.now += 1.0
        step = world.step()
        world.cluster.set_aside.epoch += 1
        for item in world.agenda.due(step.now):
            if item[0] == "retry":
                retry_set_aside(step)
        for work in works:
            if work not in world.cluster.set_aside:
                contain(step, work, DefectError())
    assert [item[0] for item in world.agenda.due(float("inf"))].count("retry") <= 3
