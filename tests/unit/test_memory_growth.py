"""`restart: {memory: …}`: the memory of a component grows once after one of its tasks used more than it had."""

from __future__ import annotations

from typing import Any

import pytest

from grass.errors import ManifestError
from grass.manifest import parse_job, read_document
from grass.manifest.native_writer import component_document
from grass.model.job import Component, Job, Restart, RestartOn
from grass.model.reasons import Reason, ReasonCode
from grass.model.resources import Resources
from grass.store.records import Records
from tests.support.world import World

GIB = 1 << 30
MORE = Reason(
    ReasonCode.SIGNAL, "killed by the kernel: it used more memory than its limit of 1GiB", {"signal": 9, "limit": GIB}
)


def world_of(*memory: int, most: int = 4 * GIB, policy: RestartOn = RestartOn.ON_FAILURE, **more: Any) -> World:
    """A cluster of nodes with so much memory, and a job."""
    world = World()
    for index, size in enumerate(memory):
        world.add_node(f"n{index + 1}", memory=size, cpu=1)
    restart = Restart(policy, backoff=0.0, memory=most)
    part = Component("w", "x", resources=Resources(cpu=1000, memory=GIB), restart=restart, **more)
    world.submit(Job("j", {"w": part}, ("w",), fail_fast=False))
    return world


def used_more(world: World, attempt: int = 1, index: int = 0) -> None:
    world.end(f"j-1/w.{index}/{attempt}", code=None, signal=9, reason=MORE.to_wire())


def memory(world: World) -> list[int]:
    """Memory of the component by its specification, by what nodes were told, and what is allocated for it."""
    found = next(iter(world.cluster.jobs["j-1"].components.values())).spec.resources.memory
    told = [node.launch["j-1/w"].component.resources.memory for node in world.nodes.values() if "j-1/w" in node.launch]
    return [found, max(told), sum(node.allocated.memory for node in world.cluster.nodes.values())]


@pytest.mark.parametrize("policy", [RestartOn.ON_FAILURE, RestartOn.NEVER])
def test_a_task_that_used_more_than_its_memory_starts_again_with_half_as_much_more(policy: RestartOn) -> None:
    world = world_of(4 * GIB, policy=policy)
    used_more(world)
    assert world.running() == ["j-1/w.0/2"] and memory(world) == [GIB * 3 // 2] * 3
    said = "the memory of w grows from 1GiB to 1.5GiB, because w.0 used more"
    assert list(world.job("j")["warnings"]) == [f"{said} than it had"]
    assert f"job j: {said}" in [each["message"] for each in world.events()]
    world.takeover()
    assert memory(world) == [GIB * 3 // 2] * 3


def test_it_happens_once_and_not_beyond_what_the_file_allows() -> None:
    world = world_of(4 * GIB, most=GIB + GIB // 4)
    used_more(world)
    assert memory(world) == [GIB * 5 // 4] * 3
    used_more(world, attempt=2)
    assert world.running() == ["j-1/w.0/3"] and memory(world) == [GIB * 5 // 4] * 3


def test_it_happens_only_where_a_limit_was_exceeded() -> None:
    world = world_of(4 * GIB)
    world.end("j-1/w.0/1", code=1)
    assert world.running() == ["j-1/w.0/2"] and memory(world)[0] == GIB


def test_no_node_is_large_enough() -> None:
    world = world_of(GIB + GIB // 4, policy=RestartOn.NEVER)
    used_more(world)
    assert memory_of_spec(world) == GIB and world.job("j")["state"] == "FAILED"
    reason = world.tasks("j-1")["w.0"]["reason"]["message"]
    assert reason.endswith("the memory of w cannot grow to 1.5GiB: no node is large enough")


def test_tasks_that_run_must_have_room_for_more_on_their_nodes() -> None:
    world = world_of(GIB, 4 * GIB, replicas=2)
    [index] = [key.split(".")[1][0] for key in world.nodes["n2"].running]
    used_more(world, index=int(index))
    assert memory_of_spec(world) == GIB and len(world.running()) == 2
    world = world_of(2 * GIB, 4 * GIB, replicas=2)
    used_more(world)
    assert memory(world) == [GIB * 3 // 2, GIB * 3 // 2, 3 * GIB] and len(world.running()) == 2


def memory_of_spec(world: World) -> int:
    spec = Records(world.backend, world.keys).spec("j-1")
    assert spec is not None
    return spec.components["w"].resources.memory


def component_of(text: str) -> Component:
    return parse_job(read_document(f"{{name: a, components: {{x: {{command: c, {text}}}}}}}")).job.components["x"]


def test_the_key_is_read_and_written_and_must_be_more_than_the_task_has() -> None:
    made = component_of("resources: {memory: 1GiB}, restart: {memory: 3GiB}")
    assert (made.restart.memory, made.restart.policy) == (3 * GIB, RestartOn.ON_FAILURE)
    assert component_document(made)["restart"]["memory"] == "3GiB"
    for text, problem in (
        ("restart: {memory: 3GiB}", "which is missing"),
        ("resources: {memory: 3GiB}, restart: {memory: 3GiB}", "which is 3GiB"),
    ):
        with pytest.raises(ManifestError) as caught:
            component_of(text)
        assert (
            str(caught.value.problems[0])
            == f"components.x.restart.memory: must be more than `resources.memory`, {problem}"
        )
