"""`check: before`: the key of a job file, the tasks that wait, and the verdict of what a check prints."""

from __future__ import annotations

from typing import Any

import pytest

from grass.errors import ManifestError
from grass.manifest import parse_job, read_document
from grass.manifest.native_writer import component_document
from grass.model.job import Component, Job
from grass.model.lifecycle import JobState
from grass.model.namespace import refused
from grass.model.resources import Resources
from grass.wire.checks import NodeCheck, NodeVerdict
from grass.wire.codec import builtins, encode
from grass.wire.job_record import JobRecord
from grass.wire.operation_record import GRASS
from master.agent.checks_before import AGAIN, BUSY, RECENT, UNHEARD
from master.monitor.checks_before import checked
from tests.support.world import World


def component_of(text: str) -> Component:
    return parse_job(read_document(f"{{name: a, components: {{x: {{command: c, {text}}}}}}}")).job.components["x"]


@pytest.mark.parametrize(("text", "level"), [("before", 0), ("{before: 0}", 0), ("{before: 1}", 1)])
def test_the_level_is_read_and_written(text: str, level: int) -> None:
    made = component_of(f"check: {text}")
    assert made.check == level
    assert component_document(made)["check"] == (({"before": 1}) if level else "before")
    assert "Kubernetes chooses the machine" in refused(made, share=True)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("check: after", "components.x.check: must be `before`, or a mapping"),
        ("check: {}", "components.x.check.before: is missing"),
        ("check: {before: 2}", "components.x.check.before: must be"),
        ("check: {before: 1, every: 1h}", "components.x.check.every: unknown"),
    ],
)
def test_another_check_is_refused_with_its_path(text: str, problem: str) -> None:
    with pytest.raises(ManifestError) as caught:
        component_of(text)
    assert any(str(each).startswith(problem) for each in caught.value.problems), caught.value.problems


def job(name: str = "j", level: int = 0, replicas: int = 1, **more: Any) -> Job:
    part = Component("w", "x", replicas=replicas, check=level, resources=Resources(cpu=1000))
    return Job(name, {"w": part}, ("w",), **more)


def of_grass(world: World) -> list[str]:
    return [key for key in world.running() if key.startswith("check-")]


def verdict(world: World, node: str, state: Any = "good", level: Any = 0, **more: Any) -> None:
    found = NodeVerdict(node, state, **more)
    check = NodeCheck(at=world.wall, user=GRASS, level=level, verdict=found)
    world.ticket("node-checked", node=node, user=GRASS, check=builtins(check))


def test_a_task_starts_once_its_node_has_passed() -> None:
    world = World()
    world.add_node("n1")
    job_id = world.submit(job())
    [check] = world.running()
    assert check.startswith("check-of-n1-")
    assert world.job("j")["reason"]["message"] == "node n1 is being checked before its tasks start there"
    world.end(check)
    assert world.running() == [], "its verdict is not there yet"
    verdict(world, "n1")
    assert world.running() == [f"{job_id}/w.0/1"]


def test_a_recent_check_that_reaches_as_far_is_used_again() -> None:
    world = World()
    world.add_node("n1", cpu=8)
    verdict(world, "n1", level=1)
    job_id = world.submit(job(level=1))
    assert world.running() == [f"{job_id}/w.0/1"]
    other = world.submit(job("k"))
    assert f"{other}/w.0/1" in world.running()
    world.end(f"{other}/w.0/1")
    world.advance(RECENT + 1, 600)
    world.submit(job("l"))
    assert len(of_grass(world)) == 1


def test_a_good_check_at_level_0_does_not_do_for_level_1() -> None:
    world = World()
    world.add_node("n1")
    verdict(world, "n1", level=0)
    world.submit(job(level=1))
    assert len(of_grass(world)) == len(world.running()) == 1


def test_a_node_that_fails_gets_no_tasks_and_another_one_is_checked() -> None:
    world = World()
    world.add_node("n1")
    job_id = world.submit(job())
    [check] = world.running()
    world.end(check)
    world.add_node("n2")
    verdict(world, "n1", "bad", fault="host", evidence=("its disk is slow",))
    assert world.nodes["n1"].name == "n1" and world.node_views()[0]["state"] == "QUARANTINED"
    [check] = world.running()
    assert check.startswith("check-of-n2-")
    world.end(check)
    verdict(world, "n2")
    assert list(world.nodes["n2"].running) == [f"{job_id}/w.0/1"]


def test_a_gang_starts_on_none_of_its_nodes_before_all_have_passed() -> None:
    world = World()
    world.add_node("n1", cpu=1)
    world.add_node("n2", cpu=1)
    verdict(world, "n1")
    job_id = world.submit(job(replicas=2, gang=("w",)))
    [check] = world.running()
    world.end(check)
    verdict(world, "n2")
    assert sorted(world.running()) == [f"{job_id}/w.0/1", f"{job_id}/w.1/1"]


def test_tasks_of_an_array_start_on_known_nodes_while_another_one_is_checked() -> None:
    world = World()
    world.add_node("n1", cpu=1)
    world.add_node("n2", cpu=1)
    verdict(world, "n1")
    job_id = world.submit(job(replicas=3))
    assert f"{job_id}/w.0/1" in world.nodes["n1"].running
    assert [key.startswith("check-of-n2-") for key in world.nodes["n2"].running] == [True]
    world.end(f"{job_id}/w.0/1")
    assert f"{job_id}/w.1/1" in world.nodes["n1"].running, "n1 is known to it"


def test_a_check_under_load_waits_for_a_node_with_tasks() -> None:
    world = World()
    world.add_node("n1", cpu=2)
    busy = world.submit(Job("busy", {"w": Component("w", "x", resources=Resources(cpu=1000))}, ("w",)))
    job_id = world.submit(job(level=1))
    assert world.running() == [f"{busy}/w.0/1"]
    message = world.job("j")["reason"]["message"]
    assert "has not passed the check before tasks start there" in message, message
    world.end(f"{busy}/w.0/1")
    world.advance(BUSY + 1)
    [check] = world.running()
    world.end(check)
    verdict(world, "n1", level=1)
    assert world.running() == [f"{job_id}/w.0/1"]


def test_several_jobs_wait_for_one_check() -> None:
    world = World()
    world.add_node("n1")
    first, second = world.submit(job()), world.submit(job("k"))
    [check] = world.running()
    world.end(check)
    verdict(world, "n1")
    assert sorted(world.running()) == [f"{first}/w.0/1", f"{second}/w.0/1"]


def test_a_check_for_which_no_job_waits_any_longer_is_stopped() -> None:
    world = World()
    world.add_node("n1")
    job_id = world.submit(job())
    [check] = world.running()
    world.ticket("stop", id=job_id, grace=0.0)
    assert world.running() == [] and world.job(check.partition("/")[0][:-9])["state"] == "STOPPED"


@pytest.mark.parametrize("lost", [True, False])
def test_a_check_without_a_verdict_is_made_again_after_a_while(lost: bool) -> None:
    world = World()
    world.add_node("n1")
    world.submit(job())
    [check] = world.running()
    world.end(check, code=1)
    if lost:
        world.advance(UNHEARD + 5)
    else:
        verdict(world, "n1", "unknown")
    assert world.running() == []
    world.advance(AGAIN + 5)
    assert len(of_grass(world)) == 1


ECC = "RuntimeError: CUDA error: uncorrectable ECC error encountered"


def test_a_check_under_load_follows_a_failure_of_hardware_on_a_node_that_is_empty_then() -> None:
    world = World()
    world.add_node("n1", cpu=4, gpu=1)
    part = Component("w", "x", resources=Resources(cpu=1000))
    job_id = world.submit(Job("j", {"w": part}, ("w",)))
    world.end(f"{job_id}/w.0/1", code=1, cause=ECC)
    [check] = of_grass(world)
    spec = world.api.spec(check.partition("/")[0])
    assert spec is not None and (spec.components["n0"].resources.cpu, len(spec.components["n0"].command)) == (4000, 7)
    assert (
        "fault of node n1, so no restart is counted; the node is checked"
        in world.tasks(job_id)["w.0"]["reason"]["message"]
    )
    world.end(check)
    verdict(world, "n1", "bad", 1, fault="gpu", evidence=("gpu 0: 2 uncorrected ECC errors",))
    assert world.node_views()[0]["state"] == "QUARANTINED"


def test_beside_other_tasks_such_a_check_only_looks_and_it_is_not_repeated_soon() -> None:
    world = World()
    world.add_node("n1", cpu=4)
    part = Component("w", "x", replicas=3, resources=Resources(cpu=1000))
    job_id = world.submit(Job("j", {"w": part}, ("w",), fail_fast=False))
    world.end(f"{job_id}/w.0/1", code=1, cause=ECC)
    [check] = of_grass(world)
    spec = world.api.spec(check.partition("/")[0])
    assert spec is not None and (spec.components["n0"].resources.cpu, len(spec.components["n0"].command)) == (0, 6)
    world.end(f"{job_id}/w.1/1", code=1, cause=ECC)
    assert of_grass(world) == [check], "it is being checked"
    world.end(check)
    verdict(world, "n1")
    world.end(f"{job_id}/w.2/1", code=1, cause=ECC)
    assert of_grass(world) == [], "it was checked a moment ago"


@pytest.mark.parametrize("cause", ["ValueError: bad shape", "ConnectionResetError: reset", ""])
def test_no_check_follows_other_failures(cause: str) -> None:
    world = World()
    world.add_node("n1", cpu=4)
    job_id = world.submit(Job("j", {"w": Component("w", "x", resources=Resources(cpu=1000))}, ("w",)))
    world.end(f"{job_id}/w.0/1", code=1, cause=cause)
    assert of_grass(world) == []


def test_a_namespace_of_kubernetes_is_not_checked_after_a_failure() -> None:
    world = World()
    world.add_node("n1", cpu=4, runtimes=["kubernetes"])
    part = Component("w", "x", image="a", resources=Resources(cpu=1000))
    job_id = world.submit(Job("j", {"w": part}, ("w",)))
    world.end(f"{job_id}/w.0/1", code=1, cause=ECC)
    assert of_grass(world) == [] and world.tasks(job_id)["w.0"]["reason"]["details"]["failure"] == "hardware"


def test_a_new_master_agent_goes_on_with_a_check_that_runs() -> None:
    world = World()
    world.add_node("n1")
    job_id = world.submit(job())
    [check] = world.running()
    world.takeover()
    world.run()
    world.advance(2.0)
    assert world.running() == [check]
    world.end(check)
    verdict(world, "n1")
    assert world.running() == [f"{job_id}/w.0/1"]


RECORD = JobRecord(
    id="check-of-n1-1", name="check-of-n1", user=GRASS, state=JobState.SUCCEEDED, submitted=1.0, ended=9.0
)
LOOK = encode({"clock": 1.0, "figures": {"disk": 3.0}}).encode()


def test_what_a_check_printed_becomes_its_verdict() -> None:
    found = checked("n1", RECORD, LOOK + b"\n" + encode({"times": {"matrix": [2.0, 1.0]}}).encode() + b"\n")
    assert (found.level, found.verdict.state, found.times, found.at) == (1, "good", {"matrix": 1.0}, 9.0)
    bad = checked("n1", RECORD, encode({"problems": [{"cause": "host", "text": "its disk is slow"}]}).encode())
    assert (bad.verdict.state, bad.verdict.fault, bad.verdict.evidence) == ("bad", "host", ("its disk is slow",))


@pytest.mark.parametrize(
    ("text", "why"), [(b"", "it printed nothing"), (b"{", "job check-of-n1"), (b'{"failed": "no torch"}', "no torch")]
)
def test_a_check_that_did_not_measure_accuses_nobody(text: bytes, why: str) -> None:
    found = checked("n1", RECORD, text)
    assert found.verdict.state == "unknown" and why in found.verdict.evidence[0]
