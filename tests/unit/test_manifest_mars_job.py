"""MarsJob of KubeDL, and the manifests that the requirements print, word for word."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from grass.errors import ManifestError
from grass.manifest import parse_job, read_document
from grass.model.ending import Clean, Enough
from grass.model.job import NO_RESTART, Condition, Job, Ready, RestartOn
from grass.model.resources import Resources

PRINTED = Path("tests/support/manifests/mars_job.yml")
"""The manifest of the requirements, word for word."""
EXAMPLE = Path("examples/foreign/mars_job.yml")


def document(path: Path = EXAMPLE, **spec: Any) -> dict[str, Any]:
    found = deepcopy(read_document(path.read_bytes()))
    found["spec"] |= spec
    return found


def job(found: dict[str, Any]) -> Job:
    return parse_job(found).job


def old(found: dict[str, Any]) -> dict[str, Any]:
    found["metadata"]["annotations"] = {"grass/mars-version": "0.6"}
    return found


def problems(found: dict[str, Any]) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        parse_job(found)
    return [str(problem) for problem in caught.value.problems]


def test_the_printed_manifest_becomes_a_supervisor_and_its_workers() -> None:
    parsed = parse_job(read_document(PRINTED.read_bytes()))
    supervisor, worker = parsed.job.components.values()
    assert parsed.job.name == "mars-test-demo"
    assert parsed.job.success == ("supervisor",)
    assert parsed.job.ending.clean is Clean.NONE
    assert (supervisor.name, supervisor.command, supervisor.replicas) == ("supervisor", ("mars-supervisor",), 1)
    assert (supervisor.ports, supervisor.web, supervisor.ready) == (("mars", "web"), "web", Ready(port="mars"))
    assert (worker.command, worker.replicas) == (("mars-worker",), 2)
    assert worker.depends_on == {"supervisor": Condition.READY}
    assert worker.image == "mars-image"
    assert {part.resources for part in (supervisor, worker)} == {Resources(cpu=2000, memory=2 << 30)}


@pytest.mark.parametrize(("limits", "told"), [({"cpu": 1, "memory": "2Gi"}, False), ({"cpu": 1}, True)])
def test_a_percentage_of_no_memory_limit_is_one_of_the_nodes_memory(limits: dict[str, Any], told: bool) -> None:
    found = document(memoryTuningPolicy={"workerCachePercentage": 40})
    container = found["spec"]["marsReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    container["resources"] = {"limits": limits}
    warnings = [each for each in parse_job(found).warnings if "workerCachePercentage" in each]
    why = "is a percentage of the node's memory, because the Worker has no memory limit"
    assert warnings == ([f"spec.memoryTuningPolicy.workerCachePercentage: {why}"] if told else [])


def test_the_printed_manifest_names_everything_that_does_not_apply() -> None:
    warnings = parse_job(read_document(PRINTED.read_bytes())).warnings
    for what in ("namespace", "serviceAccountName", "imagePullPolicy", "webHost", "WebService", "labels", "command"):
        assert [each for each in warnings if what in each.split(":")[0]], what


def test_the_printed_options_are_a_description_of_types_and_no_yaml() -> None:
    """The second manifest of the requirements says `spillDirs: []string`, which no parser accepts."""
    with pytest.raises(ManifestError, match="is not YAML"):
        read_document("spec:\n  memoryTuningPolicy:\n    spillDirs: []string\n")


def test_the_printed_options_with_values_reach_the_workers() -> None:
    options = {
        "plasmaStore": "/etc/pstore",
        "lockFreeFileIO": False,
        "spillDirs": ["/spill/a", "/spill/b"],
        "workerCachePercentage": 80,
        "workerCacheSize": "10Gi",
    }
    parsed = parse_job(document(PRINTED, memoryTuningPolicy=options))
    framework = parsed.job.components["worker"].framework
    assert framework is not None
    assert framework.options["plasmaStore"] == "/etc/pstore"
    assert framework.options["spillDirs"] == ("/spill/a", "/spill/b")
    assert framework.options["workerCacheSize"] == 10 << 30
    assert "workerCachePercentage" not in framework.options
    named = [each for each in parsed.warnings if "memoryTuningPolicy" in each]
    assert [each.split(": ")[0].rpartition(".")[2] for each in named] == ["workerCachePercentage", "lockFreeFileIO"]


def test_kubedls_own_name_of_the_options_means_the_same() -> None:
    found = document()
    renamed = document()
    renamed["spec"]["workerMemoryTuningPolicy"] = renamed["spec"].pop("memoryTuningPolicy")
    assert job(found) == job(renamed)


def test_before_0_7_each_role_stays_a_component() -> None:
    found = job(old(document(PRINTED)))
    assert [(part.name, part.command) for part in found.components.values()] == [
        ("scheduler", ("mars-scheduler",)),
        ("web", ("mars-web",)),
        ("worker", ("mars-worker",)),
    ]
    assert found.success == ("scheduler",)
    assert found.components["web"].web == "mars"
    assert found.components["web"].restart.policy is RestartOn.NEVER


def test_a_command_of_ones_own_stays() -> None:
    found = document()
    container = found["spec"]["marsReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    container["command"] = ["python", "-m", "my.worker"]
    assert job(found).components["worker"].command == ("python", "-m", "my.worker")


def test_common_features_of_kubedl_are_taken() -> None:
    found = document(activeDeadlineSeconds=60, ttlSecondsAfterFinished=0, successPolicy="AllWorkers", backoffLimit=4)
    made = job(found)
    assert (made.ending.deadline, made.ending.ttl) == (60.0, 0.0)
    assert made.success == ("worker",)
    assert made.ending.enough == {}
    restart = made.components["worker"].restart
    assert (restart.limit, restart.codes) == (4, (130, 137, 138, 143))
    assert Enough.ALL.value == "all"


def test_a_limit_of_zero_restarts_nothing() -> None:
    assert {part.restart for part in job(document(backoffLimit=0)).components.values()} == {NO_RESTART}


def test_code_that_kubedl_would_fetch_is_not_left_out_silently() -> None:
    found = document()
    found["metadata"]["annotations"] = {"kubedl.io/git-sync-config": "{}", "pai.ai/enable-error-monitoring": "true"}
    [problem] = problems(found)
    assert problem.startswith('metadata.annotations."kubedl.io/git-sync-config": is not supported; clone in')


def test_the_supervisor_gets_the_larger_resources_of_its_two_roles() -> None:
    found = document()
    roles = found["spec"]["marsReplicaSpecs"]
    roles["WebService"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {"cpu": 3}}
    assert job(found).components["supervisor"].resources == Resources(cpu=3000, memory=1 << 30)


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"marsReplicaSpecs": {}}, "spec.marsReplicaSpecs.Scheduler: is missing"),
        ({"marsReplicaSpecs": {"Boss": {}}}, "spec.marsReplicaSpecs.Boss: unknown role"),
        ({"successPolicy": "Most"}, "spec.successPolicy: must be one of"),
        ({"memoryTuningPolicy": {"lockFreeFileIO": "bool"}}, "spec.memoryTuningPolicy.lockFreeFileIO: must be true or"),
        ({"memoryTuningPolicy": {"workerCachePercentage": 101}}, "spec.memoryTuningPolicy.workerCachePercentage: must"),
        (
            {"memoryTuningPolicy": {"spillDirs": ["a"]}},
            "spec.memoryTuningPolicy.spillDirs[0]: must be an absolute path",
        ),
        ({"workerMemoryTuningPolicy": {}}, "spec.workerMemoryTuningPolicy: says the same as memoryTuningPolicy"),
        ({"cronPolicy": {}}, "spec.cronPolicy: is not supported; start the job by a schedule"),
        ({"ttlSecondsAfterFinished": -1}, "spec.ttlSecondsAfterFinished: must be from 1 to"),
        ({"activeDeadlineSeconds": 0}, "spec.activeDeadlineSeconds: must be from 1 to"),
        ({"backoffLimit": -1}, "spec.backoffLimit: must be at least 0"),
    ],
)
def test_bad_values_name_their_path(spec: dict[str, Any], problem: str) -> None:
    assert any(each.startswith(problem) for each in problems(document(**spec))), problems(document(**spec))


def test_an_unknown_version_is_refused() -> None:
    found = document() | {"apiVersion": "training.kubedl.io/v1"}
    expected = 'unknown version of MarsJob: must be training.kubedl.io/v1alpha1, got "training.kubedl.io/v1"'
    assert problems(found) == [f"apiVersion: {expected}"]
