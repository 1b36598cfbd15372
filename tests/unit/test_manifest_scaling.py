"""ScaleIn and ScaleOut of et-operator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grass.errors import ManifestError
from grass.manifest import parse_job
from grass.manifest.document import read_documents
from grass.manifest.foreign.dialects import parse_scale
from grass.manifest.foreign.scaling import ScaleRequest

VERSION = "kai.alibabacloud.com/v1alpha1"


def scale(kind: str = "ScaleIn", **spec: Any) -> dict[str, Any]:
    metadata = {"generateName": "s-"}
    return {"apiVersion": VERSION, "kind": kind, "metadata": metadata, "spec": {"selector": {"name": "train"}, **spec}}


def requests(name: str) -> list[ScaleRequest]:
    found = read_documents((Path("examples/foreign") / name).read_bytes())
    return [parse_scale(document).request for document in found]


def test_the_examples_are_read() -> None:
    job = "elastic-training"
    assert requests("scale_out.yml") == [ScaleRequest(job, 1, (), 300.0, path="spec.toAdd.count")]
    assert requests("scale_in.yml") == [
        ScaleRequest(job, -1, ("worker.1",), path="spec.toDelete.podNames"),
        ScaleRequest(job, -1, path="spec.toDelete.count"),
    ]


def test_a_task_may_be_named_in_the_words_of_grass() -> None:
    found = parse_scale(scale(toDelete={"podNames": ["worker.1", "train-worker-0"]})).request
    assert (found.delta, found.remove) == (-2, ("worker.1", "worker.0"))


def test_what_the_operator_ignores_is_ignored_with_a_warning() -> None:
    parsed = parse_scale(scale("ScaleOut", toAdd={"count": 1}, backoffLimit=3, env=[]))
    assert [each.split(":")[0] for each in parsed.warnings] == ["spec.backoffLimit", "spec.env"]


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (scale(toDelete={"count": 0}), "spec.toDelete.count: must be at least 1, got 0"),
        (scale(toDelete={"count": -3}), "spec.toDelete.count: must be at least 1, got -3"),
        (scale("ScaleOut", toAdd={"count": -1}), "spec.toAdd.count: must be at least 1, got -1"),
        (scale("ScaleOut", toAdd={}), "spec.toAdd.count: is missing"),
        (scale(toDelete={}), "spec.toDelete: must have exactly one of count, podNames"),
        (scale(toDelete={"count": 1, "podNames": ["train-worker-0"]}), "spec.toDelete: must have exactly one of"),
        (scale(toDelete={"podNames": []}), "spec.toDelete.podNames: must not be empty"),
        (scale(toDelete={"podNames": ["other-worker-1"]}), "spec.toDelete.podNames[0]: no worker of job train has"),
        (scale(toDelete={"podNames": ["train-launcher"]}), "spec.toDelete.podNames[0]: no worker of job train has"),
        (scale(toDelete={"podNames": ["worker.1", "train-worker-1"]}), "spec.toDelete.podNames: names a pod twice"),
        (scale(), "spec.toDelete: is missing; it needs count or podNames"),
        (scale(toDelete={"count": 1}, script="sh x"), "spec.script: is not supported"),
        (scale(toDelete={"count": 1}, timeout=0), "spec.timeout: must be from 1 to"),
        (scale(toDelete={"count": 1}, selector={}), "spec.selector.name: is missing; it is the job to scale"),
        ({**scale(toDelete={"count": 1}), "apiVersion": "kai/v2"}, "apiVersion: unknown version of ScaleIn"),
    ],
)
def test_bad_values_name_their_path(document: dict[str, Any], problem: str) -> None:
    with pytest.raises(ManifestError) as caught:
        parse_scale(document)
    found = [str(each) for each in caught.value.problems]
    assert any(each.startswith(problem) for each in found), found


def test_a_request_to_scale_is_no_job() -> None:
    with pytest.raises(ManifestError, match="kind: a ScaleIn is not a job; `grass apply` applies it"):
        parse_job(scale(toDelete={"count": 1}))
