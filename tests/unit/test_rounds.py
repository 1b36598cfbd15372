"""What one round of the master-agent bears, so that no ticket waits long for its turn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from grass.config import ClusterConfig
from grass.errors import UnreachableError
from grass.model.job import Component, Job, OnEnd
from grass.model.lifecycle import NodeState
from grass.model.resources import Resources
from grass.model.schedule import Schedule, ScheduleKind
from grass.store.accounts import MemoryAccounts
from grass.store.agent_store import AgentStore
from grass.store.api_store import ApiStore
from grass.store.backend import Entry
from grass.store.keys import Keys
from grass.store.node_store import NodeStore
from grass.wire.tickets import JoinNode, StartSchedule, StopJob, SuspectNode
from master.agent import floods, loop
from master.agent.step import ASSIGNED_AT_ONCE, Step
from master.planning.decide import decide as planner
from master.planning.model import Plan, Snapshot
from tests.doubles.memory_backend import MemoryBackend
from tests.support.said import report, ticket
from tests.support.sessions import sighting
from tests.support.world import World


def array(replicas: int, **more: object) -> Job:
    component = Component("t", "x", replicas=replicas, resources=Resources(cpu=10))
    return Job("j", {"t": component}, ("t",), **more)  # type: ignore[arg-type]


def one_round(world: World) -> Step:
    step = world.step()
    world.round(step)
    return step


def submitted(world: World, job: Job) -> None:
    world.api.submit(job, job_id="j-1", user="ann", now=world.wall, warnings=[], sighting=sighting(world.api))


def test_a_wide_job_gets_its_places_in_several_rounds_even_on_one_node() -> None:
    world = World()
    world.add_node("n1", cpu=64)
    submitted(world, array(1200))
    assert [len(one_round(world).changes.tasks) for _ in range(4)] == [500, 500, 200, 0]
    world.run()
    assert world.job("j")["counts"] == {"RUNNING": 1200}


def test_a_gang_is_placed_in_one_round_however_wide_it_is() -> None:
    world = World()
    world.add_node("n1", cpu=64)
    submitted(world, array(1200, gang=("t",)))
    assert len(one_round(world).changes.tasks) == 1200


def test_the_backlogs_of_many_nodes_are_filled_in_several_rounds_and_a_ticket_is_taken_between_them() -> None:
    world = World()
    nodes = [world.add_node(f"n{number}", cpu=0.1) for number in range(9)]
    submitted(world, array(2000))
    world.round()
    for node in nodes:
        node.pump(world.wall)
        ended = [node.end(key, world.wall, started=world.wall) for key in list(node.running)]
        node.store.report([report("tasks", {"events": ended})])
    step = one_round(world)
    assert sum(len(change.set) for change in step.changes.desired.values()) == ASSIGNED_AT_ONCE
    world.api.ticket(ticket("stop", id="j-1", user="ann"))
    assert world.agenda.wait(world.now, 1.0) == 0, "the next round is not waited for"
    one_round(world)
    assert world.job("j")["state"] == "STOPPING"


def test_every_node_gets_its_backlog_in_the_end() -> None:
    world = World()
    nodes = [world.add_node(f"n{number}", cpu=0.1) for number in range(9)]
    submitted(world, array(5000))
    world.round()
    for node in nodes:
        node.pump(world.wall)
        ended = [node.end(key, world.wall, started=world.wall) for key in list(node.running)]
        node.store.report([report("tasks", {"events": ended})])
    for _ in range(10):
        world.round()
    assert {node.live for node in world.cluster.nodes.values()} == {210}
    assert not world.cluster.cache.refilling


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def steady(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Redis(MemoryBackend):
    """Waiting takes the clock's time; until ``back`` it does not answer."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock, self.back = clock, 0.0

    def wait(self, after: dict[str, str], seconds: float, limit: int) -> dict[str, list[Entry]]:
        if self.clock.now < self.back:
            raise UnreachableError("redis does not answer")
        found = super().wait(after, 0.0, limit)
        if not found:
            self.clock.sleep(max(seconds, 0.001))
        return found


@pytest.mark.parametrize("deaf", ["redis is away", "the master-agent is stopped"])
def test_what_the_master_agent_could_not_hear_is_no_silence_of_the_nodes(tmp_path: Path, deaf: str) -> None:
    clock = Clock()
    backend, keys = Redis(clock), Keys("grass:test:")
    config = ClusterConfig("test", "local", str(tmp_path), str(tmp_path))
    config = replace(config, master=replace(config.master, own_node="n1"))
    store = AgentStore(backend, keys)
    agent = loop.MasterAgent(config, store, MemoryAccounts(), lambda: None, steady=clock.steady, sleep=clock.sleep)
    node, api = NodeStore(backend, keys, "n1"), ApiStore(backend, keys)
    hello = {"boot_id": "b", "version": loop.__version__, "address": "a", "api_port": 1}
    hello |= {"resources": {"cpu": 1000}}
    node.report([report("hello", hello)])
    agent.start("test")

    def until(end: float) -> None:
        agent.run(lambda: clock.now >= end)

    until(1002.0)
    if deaf == "redis is away":
        backend.back = 1402.0
    else:
        clock.now = 1402.0
    until(1404.0)
    record = api.node("n1")
    assert record is not None and record.state is NodeState.READY, "it has had no time yet to speak"
    until(1412.0)
    record = api.node("n1")
    assert record is not None and record.state is NodeState.SILENT, "it did not speak when it could"
    kinds = [event.record.kind for event in api.events("0", 100)]
    assert [kind for kind in kinds if not kind.endswith("-started")] == ["node-ready", "node-silent"]


class Asked(MemoryAccounts):
    """Counts how often connections to redis were looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0

    def crowded(self) -> set[str]:
        self.looks += 1
        return super().crowded()


@pytest.mark.parametrize("collector", [None, "10.0.0.1:24224"])
def test_strangers_at_redis_are_looked_for_before_the_first_node_has_joined(
    tmp_path: Path, collector: str | None
) -> None:
    clock, accounts = Clock(), Asked()
    config = ClusterConfig("test", "local", str(tmp_path), str(tmp_path), collector=collector)
    store = AgentStore(Redis(clock), Keys("grass:test:"))
    agent = loop.MasterAgent(config, store, accounts, lambda: None, steady=clock.steady, sleep=clock.sleep)
    agent.start("test")
    agent.run(lambda: clock.now >= 1010.0)
    assert bool(accounts.looks) is (collector is not None)


@pytest.mark.parametrize("attack", ["reports", "log records"])
def test_a_node_that_floods_the_store_or_forges_log_records_is_cut_off_and_gets_no_tasks(
    attack: str, tmp_path: Path
) -> None:
    clock = Clock()
    backend, keys, accounts = Redis(clock), Keys("grass:test:"), MemoryAccounts()
    accounts.add("n1", "0" * 64)
    config = ClusterConfig("test", "local", str(tmp_path), str(tmp_path))
    store = AgentStore(backend, keys)
    agent = loop.MasterAgent(config, store, accounts, lambda: None, steady=clock.steady, sleep=clock.sleep)
    api = ApiStore(backend, keys)
    api.ticket(JoinNode("n1", "0" * 64, "ann"))
    agent.start("test")
    agent.run(lambda: "n1" in [node.name for node in api.nodes()])
    hello = {"boot_id": "b", "version": loop.__version__, "address": "a", "api_port": 1, "probe": {"passed": True}}
    stolen = NodeStore(backend, keys, "n1")
    stolen.report([report("hello", {**hello, "resources": {"cpu": 1000}})])
    agent.run(lambda: str(api.node("n1").state.value) == "READY")  # type: ignore[union-attr]
    problem = "it sent log records of attempts of other nodes"
    if attack == "reports":
        problem = "reports"
        stolen.report([report("heartbeat", {})] * (floods.MOST_WAITING + 1))
    else:
        api.ticket(SuspectNode("n1", "collector", problem))
    agent.run(lambda: str(api.node("n1").state.value) == "QUARANTINED")  # type: ignore[union-attr]
    record = api.node("n1")
    assert record is not None and record.reason is not None
    assert problem in record.reason.message and "its access to the store was removed" in record.reason.message
    assert accounts.digests == {}
    assert backend.stream(keys.reports("n1"), "0", 9) == []
    assert "node-cut-off" in [event.record.kind for event in api.events("0", 100)]


@pytest.mark.parametrize("submitter", ["a schedule", "the command of on_end"])
def test_a_name_that_the_api_gives_away_while_the_master_agent_decides_is_given_to_one_job_only(
    tmp_path: Path, submitter: str
) -> None:
    backend, keys = MemoryBackend(), Keys("grass:test:")
    api = ApiStore(backend, keys)
    name = "a" if submitter == "a schedule" else "j-on-end"
    deciding: list[str] = []

    def meanwhile(view: Snapshot) -> Plan:
        """The API accepts a job after the round took its messages, and before it commits."""
        if deciding == ["armed"]:
            deciding.append("done")
            submit(api, replace(array(1), name=name), "by-the-api")
        return planner(view)

    config = ClusterConfig("test", "local", str(tmp_path), str(tmp_path))
    agent = loop.MasterAgent(config, AgentStore(backend, keys), MemoryAccounts(), lambda: None, decide=meanwhile)
    agent.start("test")
    submit(api, array(1, on_end=OnEnd(command="x")), "j-1")
    agent.run(lambda: "waits for" not in str(api.job("j")))
    deciding.append("armed")
    if submitter == "a schedule":
        batch = (replace(array(1), name="a"), replace(array(1), name="b"))
        api.ticket(StartSchedule(Schedule("s", ScheduleKind.BATCH, batch), "ann"))
    else:
        api.ticket(StopJob("j-1", "ann"))
    agent.run(lambda: (submitter == "a schedule" and bool(api.schedules())) or api.run("j-1").state.ended)  # type: ignore[union-attr]
    assert deciding == ["armed", "done"]
    record = api.job(name)
    assert record is not None and record.id == "by-the-api"
    active = [each.name for each in api.runs(list(backend.hgetall(keys.jobs))) if not each.state.ended]
    assert sorted(active) == (["a", "b", "j"] if submitter == "a schedule" else ["j-on-end"])
    if submitter == "a schedule":
        [schedule] = api.schedules()
        assert schedule.reason is not None
        assert schedule.reason.message == "skipped jobs whose name an active job has: a"
        assert [each.partition("-")[0] for each in schedule.jobs] == ["b"]
    else:
        said = [event.record.message for event in api.events() if event.record.kind == "notification-failed"]
        assert said == ["job j: its on_end command was left out, because job j-on-end is active"]


def test_a_job_whose_ticket_a_new_master_agent_takes_gets_its_folder(tmp_path: Path) -> None:
    backend, keys = MemoryBackend(), Keys("grass:test:")
    api = ApiStore(backend, keys)
    submit(api, array(1), "j-1")
    config = ClusterConfig("test", "local", str(tmp_path), str(tmp_path))
    agent = loop.MasterAgent(config, AgentStore(backend, keys), MemoryAccounts(), lambda: None)
    agent.start("test")  # its memory has the job before it takes the ticket
    agent.run(lambda: not backend.stream(keys.tickets, "0", 10))
    assert (config.data_dir / "jobs" / "j-1").is_dir()


def submit(api: ApiStore, job: Job, job_id: str) -> None:
    assert api.submit(job, job_id=job_id, user="ann", now=1.0, warnings=[], sighting=sighting(api))
