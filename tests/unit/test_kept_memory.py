"""`keep: shm`: what a job file may say, and when nodes are told that they need not keep memory any more."""

from __future__ import annotations

import pytest

from grass.errors import ManifestError
from grass.manifest import parse_job, read_document
from grass.manifest.native_writer import component_document
from grass.model.job import Component, Job, Keep, Restart, RestartOn
from grass.model.namespace import refused
from grass.model.resources import Resources
from tests.support.world import World

KEEPS = Component(
    "w",
    "x",
    replicas=2,
    keep=Keep.SHM,
    resources=Resources(cpu=1000, memory=1 << 30),
    restart=Restart(RestartOn.ON_FAILURE, backoff=0.0),
)


def component_of(text: str) -> Component:
    return parse_job(read_document(f"{{name: a, components: {{x: {{command: c, {text}}}}}}}")).job.components["x"]


def test_what_is_kept_is_written_as_it_is_read_and_refused_of_pods() -> None:
    made = component_of("keep: shm, resources: {memory: 1GiB}")
    assert made.keep is Keep.SHM and component_document(made)["keep"] == "shm"
    assert "the memory of a pod ends with it" in refused(made, share=True)
    assert refused(component_of("resources: {memory: 1GiB}"), share=True) == ""


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("keep: disk", "components.x.keep: must be"),
        ("keep: shm", "components.x.keep: needs `resources.memory`, which is the most that is kept"),
        (
            "keep: shm, resources: {memory: 1GiB}, image: i, container: {shm: 1GiB}",
            "components.x.keep: cannot be combined with `container.shm`",
        ),
    ],
)
def test_what_cannot_be_kept_is_said_with_its_path(text: str, problem: str) -> None:
    with pytest.raises(ManifestError) as caught:
        component_of(text)
    assert any(str(each).startswith(problem) for each in caught.value.problems), caught.value.problems


def test_a_node_keeps_memory_of_a_task_that_starts_there_again_and_not_of_one_that_ended() -> None:
    world = World()
    world.add_node("n1", cpu=2)
    job_id = world.submit(Job("j", {"w": KEEPS}, ("w",)))
    world.end(f"{job_id}/w.0/1", code=1)
    assert f"{job_id}/w.0/2" in world.running() and world.nodes["n1"].let_go == []
    world.end(f"{job_id}/w.0/2")
    assert world.nodes["n1"].let_go == [f"{job_id}/w.0"]


def test_a_node_keeps_no_memory_of_a_task_that_starts_elsewhere() -> None:
    world = World()
    world.add_node("n1", cpu=2)
    job_id = world.submit(Job("j", {"w": KEEPS}, ("w",)))
    world.add_node("n2", cpu=2)
    world.ticket("node-cordon", node="n1")
    world.end(f"{job_id}/w.0/1", code=1)
    assert f"{job_id}/w.0/2" in world.nodes["n2"].running
    assert (world.nodes["n1"].let_go, world.nodes["n2"].let_go) == ([f"{job_id}/w.0"], [])
