"""MARO's job and schedule files, unchanged."""

from __future__ import annotations

import pytest

from grass.errors import ManifestError
from grass.manifest import parse_job, read_document
from grass.manifest.schedule import parse_schedule
from grass.model.job import Component, Job, Policy
from grass.model.resources import Resources
from grass.model.schedule import ScheduleKind

PROCESS = """
mode: process
name: MyJobName
components:
  actor:
    num: 5
    command: "python /tmp/job.py"
  learner:
    num: 1
    command: "python /tmp/job.py"
"""

GRASS = """
mode: grass
name: MyJobName
allocation:
  mode: single-metric-balanced
  metric: cpu
tags: {owner: me}
components:
  actor:
    image: maro_runtime_cpu
    resources: {cpu: 1, memory: "512m", gpu: 0}
    num: 5
    mount: {target: /maro_grass}
    command: "python /maro_grass/job/actor.py"
  learner:
    image: maro_runtime_gpu
    resources: {cpu: 2, memory: 2048m, gpu: 1}
    num: 1
    mount: {target: /maro_grass}
    command: "python /maro_grass/job/learner.py"
"""


def problems_of(text: str) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        parse_job(read_document(text))
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize("text", [PROCESS, GRASS])
def test_a_job_of_maro_starts_whole_or_not_at_all(text: str) -> None:
    assert parse_job(read_document(text)).job.gang == ("actor", "learner")


def test_a_process_job_reserves_nothing_that_it_does_not_name() -> None:
    parsed = parse_job(read_document(PROCESS))
    assert parsed.warnings == ()
    assert parsed.job == Job(
        name="MyJobName",
        components={
            "actor": Component("actor", "python /tmp/job.py", replicas=5, resources=Resources()),
            "learner": Component("learner", "python /tmp/job.py", replicas=1, resources=Resources()),
        },
        success=("actor", "learner"),
        dialect="maro",
        gang=("actor", "learner"),
    )


@pytest.mark.parametrize("mode", ["grass", "grass/local", "grass/azure", "grass/on-premises"])
def test_a_grass_job_keeps_its_resources_its_image_its_mount_and_its_policy(mode: str) -> None:
    parsed = parse_job(read_document(GRASS.replace("mode: grass\n", f"mode: {mode}\n")))
    assert parsed.job.components["actor"].resources == Resources(1000, 512 << 20, 0)
    assert parsed.job.components["learner"].resources == Resources(2000, 2048 << 20, 1000)
    assert parsed.job.components["actor"].image == "maro_runtime_cpu"
    assert parsed.job.tags == {"owner": "me"}
    assert parsed.job.components["actor"].container.data == "/maro_grass"
    assert (parsed.job.policy, parsed.job.metric) == (Policy.BALANCED, "cpu")
    assert parsed.warnings == ()


def test_a_mount_without_an_image_is_ignored_with_a_warning() -> None:
    text = "{mode: grass, name: a, components: {x: {num: 1, command: c, mount: {target: /mnt}}}}"
    parsed = parse_job(read_document(text))
    assert parsed.warnings == ("components.x.mount: ignored; without an image, tasks are processes and see all files",)
    assert parsed.job.components["x"].container.data is None


@pytest.mark.parametrize(
    ("memory", "wanted"),
    [("512m", 512 << 20), ("4g", 4 << 30), ("4G", 4 << 30), ("4096M", 4 << 30), ("1024", 1 << 30), ("1GiB", 1 << 30)],
)
def test_sizes_are_binary_and_a_plain_number_is_mebibytes(memory: str, wanted: int) -> None:
    text = f"{{mode: grass, name: a, components: {{x: {{num: 1, command: c, resources: {{memory: {memory}}}}}}}}}"
    assert parse_job(read_document(text)).job.components["x"].resources.memory == wanted


def test_a_key_without_a_value_counts_as_absent() -> None:
    job = parse_job(
        read_document("mode: process\nname: a\ntags:\ncomponents: {x: {num: 1, command: c, mount: }}\n")
    ).job
    assert job.tags == {}


def test_mistakes_that_maro_accepted_are_refused_here() -> None:
    text = """
mode: grass
name: a
allocation: {mode: bogus, metric: cpu}
components:
  x:
    command: c
    num: -1
    resources: {cpu: -3, memory: 4Gi, gpu: many}
    typo_key: 1
    replicas: 3
"""
    assert problems_of(text) == [
        "components.x.num: must be at least 1, got -1",
        "components.x.resources.cpu: must not be negative, got -3",
        'components.x.resources.memory: must be a size such as 2048m, got "4Gi"',
        'components.x.resources.gpu: must be a whole number of devices, got "many"',
        "components.x.typo_key: unknown key; use one of image, command, num, resources, mount",
        "components.x.replicas: unknown key; did you mean `num`?",
        'allocation.mode: must be one of single-metric-balanced, single-metric-compacted; got "bogus"',
    ]


def test_what_maro_requires_is_required() -> None:
    assert problems_of("{mode: process, components: {x: {}}}") == [
        "components.x.command: is missing",
        "components.x.num: is missing",
        "name: is missing",
    ]


def test_an_unknown_mode_is_not_claimed() -> None:
    (problem,) = problems_of("{mode: k8s/gke, name: a, components: {x: {num: 1, command: c}}}")
    assert problem.startswith("mode: must be one of process, grass,")


def test_a_maro_schedule_becomes_a_job_per_name() -> None:
    text = PROCESS.replace("name: MyJobName", "name: MySchedule\njob_names: [one, two]")
    parsed = parse_schedule(read_document(text))
    assert parsed.schedule.name == "MySchedule"
    assert parsed.schedule.kind is ScheduleKind.BATCH
    assert [job.name for job in parsed.schedule.jobs] == ["one", "two"]
    assert {job.dialect for job in parsed.schedule.jobs} == {"maro"}
    assert parsed.schedule.jobs[0].components == parsed.schedule.jobs[1].components
