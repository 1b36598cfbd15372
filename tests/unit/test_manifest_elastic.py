"""Sizes and frameworks of components in job files."""

from __future__ import annotations

from typing import Any

import pytest

from grass.errors import ManifestError
from grass.manifest import parse_job, read_document
from grass.model.framework import Framework, FrameworkName
from grass.model.job import Component
from grass.wire import codec
from grass.wire.job_record import JOB


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
        ("framework: {name: mars, a: {b: c}}", "components.x.framework.a: must be text, a number"),
        ("framework: {name: mars, a.b: 1}", 'components.x.framework."a.b": must be a name'),
    ],
)
def test_sizes_and_frameworks_that_cannot_be_are_refused(text: str, problem: str) -> None:
    found = problems_of(text)
    assert len(found) == 1
    assert found[0].startswith(problem)


def test_a_framework_is_a_name_or_a_mapping_with_options() -> None:
    assert component_of("framework: torchrun").framework == Framework(FrameworkName.TORCHRUN)
    options = "framework: {name: mars, slots: 2, spill: [/a, /b], lock-free: true, share: 0.5}"
    expected = {"slots": 2, "spill": ("/a", "/b"), "lock-free": True, "share": 0.5}
    assert component_of(options).framework == Framework(FrameworkName.MARS, expected)


def test_an_elastic_component_survives_its_way_over_the_wire() -> None:
    text = "{name: a, components: {x: {command: c, min: 2, max: 4, unit: 2, framework: {name: tf, ports: [a, 1]}}}}"
    job = parse_job(read_document(text)).job
    assert JOB.decode(codec.encode(job)) == job
