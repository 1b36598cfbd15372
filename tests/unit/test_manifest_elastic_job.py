"""ElasticJob of DLRover: what becomes of it, and what is refused with its path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grass.errors import ManifestError
from grass.manifest import parse_job, read_document
from grass.model.framework import FrameworkName
from grass.model.job import RestartOn


def document(*command: str, replicas: int = 2, roles: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    pod = {"containers": [{"name": "main", "image": "i", "command": list(command)}]}
    worker = {"replicas": replicas, "template": {"spec": pod}}
    return {
        "apiVersion": "elastic.iml.github.io/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": "j"},
        "spec": {"replicaSpecs": {"worker": worker, **(roles or {})}, **spec},
    }


def problems_of(found: dict[str, Any]) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        parse_job(found)
    return [str(problem) for problem in caught.value.problems]


def command_of(*words: str, replicas: int = 2) -> object:
    return parse_job(document(*words, replicas=replicas)).job.components["worker"].command


def test_dlrover_run_becomes_torchrun_with_the_bounds_of_its_nnodes() -> None:
    parsed = parse_job(read_document(Path("examples/foreign/elastic_job.yml").read_bytes()))
    part = parsed.job.components["worker"]
    assert (parsed.job.dialect, parsed.job.success) == ("ElasticJob", ("worker",))
    assert part.command == ("/bin/bash", "-c", "torchrun --nproc_per_node=1 train.py --epochs 2")
    assert (part.replicas, part.min, part.max) == (2, 2, 4)
    assert part.framework is not None and part.framework.name is FrameworkName.TORCHRUN
    assert (part.restart.policy, part.restart.limit) == (RestartOn.ALWAYS, 3)
    assert any("--network-check, --nnodes: left out" in warning for warning in parsed.warnings)


@pytest.mark.parametrize(
    ("given", "runs"),
    [
        ("dlrover-run --nnodes=$NODE_NUM train.py", "torchrun train.py"),
        ("dlrover-run --nnodes 2 --node_unit 1 train.py --nnodes 9", "torchrun train.py --nnodes 9"),
        ("dlrover-run --standalone --auto-config train.py --standalone", "torchrun train.py --standalone"),
        ("cd /x && /opt/bin/dlrover-run --max_restarts=1 -m t", "cd /x && torchrun --max_restarts=1 -m t"),
        ("python -m dlrover.trainer.torch.main --nnodes=2 t.py", "torchrun t.py"),
        ("torchrun --rdzv-backend c10d --rdzv-endpoint h:1 t.py", "torchrun t.py"),
        ("echo dlrover-runs", "echo dlrover-runs"),
    ],
)
def test_options_of_dlrover_are_left_out_and_those_of_the_program_stay(given: str, runs: str) -> None:
    assert command_of("sh", "-c", given) == ("sh", "-c", runs)


def test_words_stay_words() -> None:
    assert command_of("dlrover-run", "--nnodes=2", "t.py", "a b", "$X") == ("torchrun", "t.py", "a b", "$X")


def test_a_job_without_torchrun_has_no_framework_and_one_size() -> None:
    part = parse_job(document("python", "t.py")).job.components["worker"]
    assert (part.framework, part.min, part.max) == (None, None, None)
    assert (part.restart.policy, part.restart.limit) == (RestartOn.ON_FAILURE, 3)


def test_what_would_change_the_meaning_is_refused_with_its_path() -> None:
    [strategy] = problems_of(document("t", distributionStrategy="ParameterServerStrategy"))
    assert strategy.startswith("spec.distributionStrategy: ParameterServerStrategy is not supported")
    [role] = problems_of(document("t", roles={"ps": {}}))
    assert role == "spec.replicaSpecs.ps: unknown role; use worker"
    [size] = problems_of(document("dlrover-run", "--nnodes=3:4", "t.py"))
    assert size.endswith("--nnodes is 3:4, and replicas is 2; make them fit")
    [unknown] = problems_of(document("t", speed=1))
    assert unknown.startswith("spec.speed: ")
    assert "is missing; an ElasticJob has workers" in problems_of({**document("t"), "spec": {"replicaSpecs": {}}})[0]


def test_the_master_of_dlrover_and_its_tuning_are_ignored_with_a_warning() -> None:
    parsed = parse_job(document("t", roles={"dlrover-master": {"replicas": 1}}, optimizeMode="single-job"))
    assert [warning.partition(":")[0] for warning in parsed.warnings] == [
        "spec.optimizeMode",
        "spec.replicaSpecs.dlrover-master",
    ]
