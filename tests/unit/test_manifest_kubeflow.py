"""PyTorchJob, TFJob and MPIJob of Kubeflow and of KubeDL: what becomes of them, and what is refused with its path."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from grass.errors import ManifestError
from grass.manifest import parse_job, read_document
from grass.model.ending import Clean, Ending, Enough
from grass.model.framework import Framework, FrameworkName
from grass.model.job import Condition, RestartOn
from grass.model.resources import Resources

EXAMPLES = Path("examples/foreign")
KUBEDL = "training.kubedl.io/v1alpha1"


def container(*command: str, **more: Any) -> dict[str, Any]:
    return {"name": "main", "image": "i", "command": list(command), **more}


def role(replicas: int = 1, *command: str, **more: Any) -> dict[str, Any]:
    pod = {"containers": [container(*(command or ("python", "train.py")), **more)]}
    return {"replicas": replicas, "template": {"spec": pod}}


def document(kind: str, version: str = "kubeflow.org/v1", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "j"}, "spec": spec}


def pytorch(**spec: Any) -> dict[str, Any]:
    return document("PyTorchJob", **{"pytorchReplicaSpecs": {"Master": role(), "Worker": role(3)}, **spec})


def problems_of(found: dict[str, Any]) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        parse_job(found)
    return [str(problem) for problem in caught.value.problems]


def test_the_ranks_of_a_pytorch_job_are_one_component() -> None:
    parsed = parse_job(read_document((EXAMPLES / "pytorch_job.yml").read_bytes()))
    assert (parsed.job.dialect, parsed.job.success, parsed.job.gang) == ("PyTorchJob", ("worker",), ("worker",))
    part = parsed.job.components["worker"]
    assert (part.replicas, part.ports, part.framework) == (2, ("master",), Framework(FrameworkName.TORCH))
    assert (part.restart.policy, part.restart.limit) == (RestartOn.ON_FAILURE, None)
    assert parsed.job.ending == Ending(clean=Clean.NONE, ttl=86400.0)


def test_a_key_of_a_role_without_a_value_is_absent() -> None:
    roles = {"Master": {**role(), "restartPolicy": None}, "Worker": {**role(3), "restartPolicy": None}}
    assert parse_job(pytorch(pytorchReplicaSpecs=roles)).job == parse_job(pytorch()).job


def test_kubedl_has_the_run_policy_in_the_specification_itself() -> None:
    found = pytorch(cleanPodPolicy="All", backoffLimit=2, activeDeadlineSeconds=60)
    job = parse_job({**found, "apiVersion": KUBEDL}).job
    assert job.ending == Ending(clean=Clean.ALL, deadline=60.0)
    assert job.components["worker"].restart.limit == 2
    nested = pytorch(runPolicy={"cleanPodPolicy": "All", "backoffLimit": 2, "activeDeadlineSeconds": 60})
    assert parse_job(nested).job == job


def test_the_master_and_its_workers_must_run_the_same() -> None:
    specs = {"Master": role(1, "python", "a.py"), "Worker": role(2, "python", "b.py")}
    assert problems_of(pytorch(pytorchReplicaSpecs=specs)) == [
        "spec.pytorchReplicaSpecs.Worker.template: its command differs from that of the Master; "
        "the ranks are tasks of one component, so make them equal"
    ]
    specs = {"Master": role(resources={"limits": {"cpu": 1}}), "Worker": role(resources={"limits": {"memory": "1Gi"}})}
    assert parse_job(pytorch(pytorchReplicaSpecs=specs)).job.components["worker"].resources == Resources(1000, 1 << 30)


def test_an_elastic_job_is_one_of_torchrun() -> None:
    workers = {"Worker": role(2, "torchrun", "train.py")}
    policy = {"minReplicas": 1, "maxReplicas": 4, "maxRestarts": 9, "rdzvBackend": "c10d"}
    parsed = parse_job(pytorch(pytorchReplicaSpecs=workers, elasticPolicy=policy, nprocPerNode="2"))
    part = parsed.job.components["worker"]
    assert (part.replicas, part.min, part.max, parsed.job.gang) == (2, 1, 4, ())
    assert part.framework == Framework(FrameworkName.TORCHRUN, {"slots": 2, "restarts": 9})
    assert parsed.warnings == ("spec.elasticPolicy.rdzvBackend: ignored; Grass itself is the rendezvous of torchrun",)


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"elasticPolicy": {"minReplicas": 1}}, "spec.elasticPolicy: needs a job with Workers only"),
        ({"pytorchReplicaSpecs": {"Worker": role()}, "elasticPolicy": {}}, "spec.elasticPolicy: needs a command that"),
        ({"pytorchReplicaSpecs": {"Master": role(2)}}, "spec.pytorchReplicaSpecs.Master.replicas: must be 1, got 2"),
        ({"pytorchReplicaSpecs": {"Chief": role()}}, "spec.pytorchReplicaSpecs.Chief: unknown role; use one of Master"),
        ({"pytorchReplicaSpecs": {}}, "spec.pytorchReplicaSpecs: must not be empty"),
        ({"nprocPerNode": "many"}, "spec.nprocPerNode: must be a number from 1 to 1024, or one of auto, gpu, cpu"),
        ({"runPolicy": {"suspend": True}}, "spec.runPolicy.suspend: is not supported"),
        ({"cronPolicy": {"schedule": "* * * * *"}}, "spec.cronPolicy: is not supported; start the job by a schedule"),
        ({"modelVersion": {}}, "spec.modelVersion: is not supported"),
        ({"runPolicy": {"cleanPods": "All"}}, "spec.runPolicy.cleanPods: unknown key; did you mean `cleanPodPolicy`?"),
    ],
)
def test_what_would_change_the_meaning_is_refused(change: dict[str, Any], path: str) -> None:
    [problem] = problems_of(pytorch(**change))
    assert problem.startswith(path)


def test_an_mpi_job_is_a_launcher_and_workers() -> None:
    parsed = parse_job(read_document((EXAMPLES / "mpi_job.yml").read_bytes()))
    launcher, worker = (parsed.job.components[name] for name in ("launcher", "worker"))
    assert launcher.command == ("/bin/sh", "-c", 'exec mpirun -n 2 --hostfile "${GRASS_HOSTS}" hostname')
    assert (launcher.depends_on, launcher.framework) == (
        {"worker": Condition.RUNNING},
        Framework(FrameworkName.OPENMPI, {"slots": 1}),
    )
    assert (launcher.restart.policy, launcher.restart.limit) == (RestartOn.ON_FAILURE, 6)
    assert (worker.command, worker.replicas, worker.restart.policy) == (
        ("sh", "-c", "exec sleep 365d"),
        2,
        RestartOn.NEVER,
    )
    assert (parsed.job.success, parsed.job.fail_fast, parsed.job.gang) == (("launcher",), False, ("worker",))
    assert any("starts an sshd, which is not needed here" in warning for warning in parsed.warnings)


@pytest.mark.parametrize(
    ("implementation", "command", "name"),
    [
        ("OpenMPI", "mpirun", "openmpi"),
        ("MPICH", "mpirun", "mpich"),
        ("Intel", "mpiexec.hydra", "mpich"),
        ("OpenMPI", "horovodrun", "horovod"),
    ],
)
def test_the_implementation_of_mpi_is_the_framework(implementation: str, command: str, name: str) -> None:
    specs = {"Launcher": role(1, command, "x"), "Worker": role(2, "sleep", "9")}
    found = document("MPIJob", "kubeflow.org/v2beta1", mpiReplicaSpecs=specs, mpiImplementation=implementation)
    framework = parse_job(found).job.components["launcher"].framework
    assert framework is not None and framework.name.value == name


def test_an_mpi_job_without_workers_or_with_ranks_in_its_launcher_is_refused() -> None:
    alone = document("MPIJob", mpiReplicaSpecs={"Launcher": role(1, "mpirun")})
    assert problems_of(alone) == ["spec.mpiReplicaSpecs.Worker: is missing; an MPIJob has a Launcher and Workers"]
    both = {"Launcher": role(1, "mpirun"), "Worker": role(2)}
    [problem] = problems_of(document("MPIJob", mpiReplicaSpecs=both, runLauncherAsWorker=True))
    assert problem.startswith("spec.runLauncherAsWorker: is not supported")


def test_the_roles_of_a_tensorflow_job_have_the_names_of_its_cluster() -> None:
    job = parse_job(read_document((EXAMPLES / "tf_job.yml").read_bytes())).job
    assert {name: part.replicas for name, part in job.components.items()} == {"ps": 1, "worker": 3}
    assert all(part.ports == ("tf",) for part in job.components.values())
    assert all(part.framework == Framework(FrameworkName.TF) for part in job.components.values())
    assert (job.success, job.ending.enough, job.gang) == (("worker",), {"worker": Enough.INDEX0}, ("ps", "worker"))


@pytest.mark.parametrize(
    ("roles", "policy", "success", "enough"),
    [
        (("Chief", "Worker"), "", "chief", {}),
        (("Master", "Worker", "PS"), "", "master", {}),
        (("Chief", "Worker"), "AllWorkers", "worker", {}),
        (("Worker", "Evaluator"), "", "worker", {"worker": Enough.INDEX0}),
    ],
)
def test_a_tensorflow_job_succeeds_as_its_operator_says(
    roles: tuple[str, ...], policy: str, success: str, enough: dict[str, Enough]
) -> None:
    specs = {name: role() for name in roles}
    job = parse_job(document("TFJob", tfReplicaSpecs=specs, successPolicy=policy)).job
    assert (job.success, job.ending.enough) == ((success,), enough)


@pytest.mark.parametrize("kind", ["XGBoostJob", "TrainJob", "Deployment", "MarsJobs"])
def test_a_kind_that_is_not_read_gets_the_names_of_those_that_are(kind: str) -> None:
    [problem] = problems_of({**document(kind), "kind": kind})
    assert "did you mean" not in problem
    assert "PyTorchJob (kubeflow.org/v1, training.kubedl.io/v1alpha1)" in problem


def test_a_kind_in_other_letters_is_guessed() -> None:
    assert problems_of(document("PytorchJob")) == ['kind: unknown kind "PytorchJob"; did you mean `PyTorchJob`?']


def test_what_a_reader_does_not_know_is_refused_with_its_path() -> None:
    found = deepcopy(pytorch())
    found["spec"]["pytorchReplicaSpecs"]["Worker"]["spotReplicaSpec"] = {}
    found["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["initContainers"] = []
    assert [problem.partition(":")[0] for problem in problems_of(found)] == [
        "spec.pytorchReplicaSpecs.Worker.spotReplicaSpec",
        "spec.pytorchReplicaSpecs.Worker.template.spec.initContainers",
    ]
