"""ElasticJob of DLRover: what becomes of it, and what is refused with its path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grass.errors import InputError, ManifestError
from grass.manifest import parse_job, read_document
from grass.manifest.export.formats import FORMATS
from grass.model.framework import Framework, FrameworkName
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


def test_dlrover_run_stays_with_a_master_of_grass_if_the_strategy_is_all_reduce() -> None:
    parsed = parse_job(read_document(Path("examples/foreign/elastic_job.yml").read_bytes()))
    part = parsed.job.components["worker"]
    assert (parsed.job.dialect, parsed.job.success) == ("ElasticJob", ("worker",))
    run = "dlrover-run --network-check --nnodes=2:4 --nproc_per_node=1 train.py --epochs 2"
    assert part.command == ("/bin/bash", "-c", run)
    assert (part.replicas, part.min, part.max) == (2, 2, 4)
    assert part.framework is not None and part.framework.name is FrameworkName.DLROVER
    assert list(parsed.job.components) == ["worker", "dlrover-master"]
    assert (part.restart.policy, part.restart.limit) == (RestartOn.ALWAYS, 3)
    assert any("starts dlrover-run as it is; it must be of DLRover 0.6.1" in warning for warning in parsed.warnings)


@pytest.mark.parametrize(
    ("given", "runs"),
    [
        ("cd /x && /opt/bin/dlrover-run --nnodes=2 t.py", "cd /x && dlrover-run --nnodes=2 t.py"),
        ("python -m dlrover.trainer.torch.main t.py", "dlrover-run t.py"),
        ("torchrun t.py", "torchrun t.py"),
    ],
)
def test_dlrover_run_is_found_by_its_name_alone(given: str, runs: str) -> None:
    found = parse_job(document("sh", "-c", given, distributionStrategy="AllreduceStrategy")).job.components["worker"]
    assert found.command == ("sh", "-c", runs)


def test_dlrover_run_becomes_torchrun_with_the_bounds_of_its_nnodes() -> None:
    parsed = parse_job(document("dlrover-run", "--network-check", "--nnodes=2:4", "t.py"))
    part = parsed.job.components["worker"]
    assert (part.command, part.min, part.max) == (("torchrun", "t.py"), 2, 4)
    assert part.framework is not None and part.framework.name is FrameworkName.TORCHRUN
    assert any("--network-check, --nnodes: left out" in warning for warning in parsed.warnings)


def servers(**roles: dict[str, Any]) -> dict[str, Any]:
    pod = {"containers": [{"name": "main", "image": "i", "command": ["python", "t.py"]}]}
    specs = {name: {"template": {"spec": pod}, **role} for name, role in roles.items()}
    spec = {"distributionStrategy": "ParameterServerStrategy", "replicaSpecs": specs}
    about = {"apiVersion": "elastic.iml.github.io/v1alpha1", "kind": "ElasticJob", "metadata": {"name": "j"}}
    return {**about, "spec": spec}


def test_a_job_of_parameter_servers_has_a_component_for_each_role() -> None:
    job = parse_job(servers(ps={"replicas": 2}, worker={"replicas": 3, "restartCount": 1}, chief={}, evaluator={})).job
    assert list(job.components) == ["ps", "worker", "chief", "evaluator", "dlrover-master"]
    worker = job.components["worker"]
    assert worker.command == ("python3", "-m", "grass_dlrover.agent", "python", "t.py")
    assert (worker.replicas, worker.ports, worker.restart.limit) == (3, ("tf",), 1)
    assert (job.success, job.fail_fast, job.gang) == (("chief", "worker"), True, ("ps", "worker", "chief", "evaluator"))
    again = parse_job(read_document(FORMATS["ElasticJob"](job).text.encode())).job
    assert again == job


def test_roles_that_a_job_of_parameter_servers_cannot_have_are_refused() -> None:
    assert problems_of(servers(worker={})) == ["spec.replicaSpecs: must have a ps, and a chief or a worker"]
    [role] = problems_of(servers(ps={}, worker={}, boss={}))
    assert role == "spec.replicaSpecs.boss: unknown role; use worker, ps, chief, evaluator"
    [chiefs] = problems_of(servers(ps={}, chief={"replicas": 2}))
    assert chiefs == "spec.replicaSpecs.chief.replicas: must be 1, because a job has one chief; got 2"


@pytest.mark.parametrize("command", [["dlrover-run", "t.py"], ["sh", "-c", "cd /x; dlrover-run t.py"]])
def test_an_exported_job_of_all_reduce_is_the_same_when_it_is_read_again(command: list[str]) -> None:
    part = {"command": command, "replicas": 2, "min": 2, "max": 4, "framework": "dlrover", "image": "i"}
    job = parse_job({"name": "j", "components": {"worker": {**part, "restart": {"policy": "on-failure"}}}}).job
    exported = FORMATS["ElasticJob"](job)
    again = parse_job(read_document(exported.text.encode())).job.components["worker"]
    assert (again.min, again.max, again.replicas, again.framework) == (2, 4, 2, Framework(FrameworkName.DLROVER))
    assert " ".join(again.command).endswith("dlrover-run --nnodes=2:4 t.py")
    assert exported.missing == ("fail_fast",), "in Kubernetes, one worker that failed for good ends the job"


def test_a_job_that_is_no_elastic_job_is_not_exported_as_one() -> None:
    job = parse_job({"name": "j", "components": {"w": {"command": "true"}}}).job
    with pytest.raises(InputError, match="job j: component w is none of worker, ps, chief, evaluator"):
        FORMATS["ElasticJob"](job)


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
    [strategy] = problems_of(document("t", distributionStrategy="Best"))
    assert strategy.startswith("spec.distributionStrategy: must be one of")
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
