"""Sizes and frameworks of components in job files."""

from __future__ import annotations

from typing import Any

import pytest

from grass.errors import ManifestError
from grass.manifest import parse_job, read_document
from grass.model.framework import Framework, FrameworkName
from grass.model.job import Component
from grass.wire import codec
from grass.wire.specification import SPECIFICATION


def component_of(text: str) -> Component:
    return parse_job(read_document(f"{{name: a, components: {{x: {{command: c, {text}}}}}}}")).job.components["x"]


def problems_of(text: str) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        component_of(text)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", (1, None, None, 1)),
        ("replicas: 3", (3, None, None, 1)),
        ("min: 2", (2, 2, None, 1)),
        ("max: 4", (1, None, 4, 1)),
        ("unit: 2", (2, None, None, 2)),
        ("replicas: 4, min: 2, max: 8, unit: 2", (4, 2, 8, 2)),
    ],
)
def test_sizes_have_sensible_defaults(text: str, expected: tuple[Any, ...]) -> None:
    found = component_of(text)
    assert (found.replicas, found.min, found.max, found.unit) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("min: 3, max: 2", "components.x.min: must be at most `max`, which is 2; got 3"),
        ("min: 2, replicas: 1", "components.x.replicas: must be at least `min`, which is 2; got 1"),
        ("max: 2, replicas: 3", "components.x.replicas: replicas must be at most `max`, which is 2; got 3"),
        ("unit: 2, replicas: 3", "components.x.replicas: must be a multiple of `unit`, which is 2; got 3"),
        ("unit: 2, replicas: 4, max: 5", "components.x.max: must be a multiple of `unit`, which is 2; got 5"),
        ("min: 0", "components.x.min: must be at least 1, got 0"),
        ("max: -1", "components.x.max: must be at least 1, got -1"),
        ("min: 1, matrix: {a: [1, 2]}", "components.x.min: does not go with `matrix`"),
        ("min: 2, parallelism: 1", "components.x.parallelism: must be at least `min`"),
        ("framework: spark", "components.x.framework: must be one of none, torch, torchrun"),
        ("framework: {slots: 2}", "components.x.framework.name: is missing; use one of none, torch"),
        ("framework: {name: torchrun, restart: 3}", "components.x.framework.restart: unknown key; did you mean `rest"),
        ("framework: {name: torchrun, restarts: x}", 'components.x.framework.restarts: must be a whole number, got "x'),
        ("framework: {name: horovod, slots: 0}", "components.x.framework.slots: must be at least 1, got 0"),
        ("framework: {name: horovod, workers: hosts}", "components.x.framework.workers: unknown component; the job"),
        ("ports: [tf], framework: {name: tf, port: [a]}", "components.x.framework.port: must be a name, got a list"),
        ("framework: tf", "components.x.ports: framework tf needs a port named `tf`, which TF_CONFIG names"),
        (
            "ports: [tf], framework: {name: tf, port: grpc}",
            "components.x.ports: framework tf needs a port named `grpc`",
        ),
        ("ports: [mars], framework: mars", "components.x.framework: set `role` to supervisor, worker, scheduler, web"),
        ("framework: {name: mars, role: worker}", "components.x.ports: framework mars needs a port named `mars`"),
        (
            "ports: [mars], framework: {name: mars, role: worker, spillDirs: [spill]}",
            "components.x.framework.spillDirs: must be an absolute path",
        ),
    ],
)
def test_sizes_and_frameworks_that_cannot_be_are_refused(text: str, problem: str) -> None:
    found = problems_of(text)
    assert len(found) == 1
    assert found[0].startswith(problem)


@pytest.mark.parametrize(
    ("worker", "gang"),
    [
        ({"replicas": 2}, ("ps", "worker")),
        ({"depends_on": {"data": "succeeded"}}, ("ps", "worker")),
        ({"depends_on": ["ps"]}, ()),
        ({"depends_on": ["after"]}, ()),
        ({"min": 1, "max": 2}, ()),
        ({"framework": "torch"}, ()),
    ],
)
def test_tasks_that_tf_config_names_start_together(worker: dict[str, Any], gang: tuple[str, ...]) -> None:
    part = {"command": "c", "framework": "tf", "ports": ["tf"]}
    components = {
        "worker": {**part, **worker},
        "ps": part,
        "data": {"command": "c"},
        "after": {"command": "c", "depends_on": ["ps"]},
    }
    assert parse_job({"name": "j", "components": components}).job.gang == gang
    alone = {"name": "j", "components": {"worker": part}}
    assert parse_job(alone).job.gang == ()


def test_a_framework_is_a_name_or_a_mapping_with_options() -> None:
    assert component_of("framework: torchrun").framework == Framework(FrameworkName.TORCHRUN)
    given = "role: worker, slots: 2, spillDirs: [/a, /b], lockFreeFileIO: true, version: '0.10'"
    options = f"ports: [mars], framework: {{name: mars, {given}}}"
    expected = {"role": "worker", "slots": 2, "spillDirs": ("/a", "/b"), "lockFreeFileIO": True, "version": "0.10"}
    assert component_of(options).framework == Framework(FrameworkName.MARS, expected)


def test_an_elastic_component_survives_its_way_over_the_wire() -> None:
    framework = "{name: horovod, workers: x, slots: 2}"
    text = f"{{name: a, components: {{x: {{command: c, min: 2, max: 4, unit: 2, framework: {framework}}}}}}}"
    job = parse_job(read_document(text)).job
    assert SPECIFICATION.decode(codec.encode(job)) == job
