"""TrainingJob of et-operator: every field is taken, warned about, or refused with its path."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from grass.errors import ManifestError
from grass.manifest import parse_job, read_document
from grass.manifest.foreign.training_job import IDLE
from grass.model.ending import Clean, JobRestart
from grass.model.framework import FrameworkName
from grass.model.job import Component, Condition, Job, Mount, Ready, RestartOn
from grass.model.resources import Resources

EXAMPLE = Path("examples/foreign/training_job.yml")
LAUNCHER, WORKER = "spec.etReplicaSpecs.launcher", "spec.etReplicaSpecs.worker"
CONTAINER = f"{WORKER}.template.spec.containers[0]"


def document(**spec: Any) -> dict[str, Any]:
    found = deepcopy(read_document(EXAMPLE.read_bytes()))
    found["spec"] |= spec
    return found


def at(found: dict[str, Any], path: str) -> Any:
    for key in path.replace("[0]", ".0").split("."):
        found = found[int(key)] if isinstance(found, list) else found[key]
    return found


def with_worker(**keys: Any) -> dict[str, Any]:
    """Return the example with these keys in the container of the worker."""
    found = document()
    at(found, CONTAINER).update(keys)
    return found


def with_pod(**keys: Any) -> dict[str, Any]:
    found = document()
    at(found, f"{WORKER}.template.spec").update(keys)
    return found


def job(found: dict[str, Any]) -> Job:
    return parse_job(found).job


def worker(found: dict[str, Any]) -> Component:
    return job(found).components["worker"]


def problems(found: dict[str, Any]) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        parse_job(found)
    return [str(problem) for problem in caught.value.problems]


def test_the_launcher_starts_after_its_workers_and_the_job_succeeds_with_it() -> None:
    found = job(document())
    assert found.name == "elastic-training"
    assert found.dialect == "TrainingJob"
    assert (found.success, found.fail_fast) == (("launcher",), False)
    launcher, workers = found.components.values()
    assert launcher.depends_on == {"worker": Condition.RUNNING}
    assert (workers.replicas, workers.min, workers.max) == (2, 1, 4)
    assert workers.command == IDLE
    assert workers.resources == Resources(cpu=100, memory=64 << 20)
    assert workers.env == {"EPOCHS": "3"}


def test_files_of_the_operator_are_replaced_by_those_of_grass() -> None:
    parsed = parse_job(document())
    launcher = parsed.job.components["launcher"]
    assert launcher.command == ("sh", "-c", "echo the hosts are:; cat ${GRASS_HOSTS}; sleep 120")
    assert any("/etc/edl/hostfile is replaced by $GRASS_HOSTS" in warning for warning in parsed.warnings)


def test_a_command_without_a_shell_gets_one_only_for_such_a_file() -> None:
    found = document()
    words = ["horovodrun", "--host-discovery-script", "/etc/edl/discover_hosts.sh", "a b.py"]
    at(found, f"{LAUNCHER}.template.spec.containers[0]")["command"] = words
    made = "exec horovodrun --host-discovery-script \"${GRASS_DISCOVER_HOSTS}\" 'a b.py'"
    assert job(found).components["launcher"].command == ("/bin/sh", "-c", made)


@pytest.mark.parametrize(
    ("command", "made"),
    [
        (["deepspeed", "t.py"], ("/bin/sh", "-c", 'exec deepspeed --hostfile "${GRASS_HOSTS}" t.py')),
        (
            ["bash", "-c", "pip install deepspeed && cd x; /opt/bin/deepspeed t.py"],
            ("bash", "-c", "pip install deepspeed && cd x; /opt/bin/deepspeed --hostfile ${GRASS_HOSTS} t.py"),
        ),
        (["sh", "-c", "deepspeed -H /job/hostfile t.py"], ("sh", "-c", "deepspeed -H ${GRASS_HOSTS} t.py")),
        (["sh", "-c", "deepspeed --hostfile=/own t.py"], ("sh", "-c", "deepspeed --hostfile=/own t.py")),
        (["python", "-m", "deepspeed.launcher.runner"], ("python", "-m", "deepspeed.launcher.runner")),
    ],
)
def test_deepspeed_gets_the_host_file_that_it_reads_by_default(command: list[str], made: tuple[str, ...]) -> None:
    found = document()
    at(found, f"{LAUNCHER}.template.spec.containers[0]")["command"] = command
    assert job(found).components["launcher"].command == made


@pytest.mark.parametrize(
    ("command", "framework"),
    [
        (["horovodrun", "x"], FrameworkName.HOROVOD),
        (["sh", "-c", "deepspeed train.py"], FrameworkName.DEEPSPEED),
        (["mpirun", "x"], FrameworkName.OPENMPI),
        (["python", "x"], FrameworkName.HOROVOD),
    ],
)
def test_the_framework_is_that_of_the_launchers_command(command: list[str], framework: FrameworkName) -> None:
    found = document(slotsPerWorker=2)
    at(found, f"{LAUNCHER}.template.spec.containers[0]")["command"] = command
    frameworks = [part.framework for part in job(found).components.values()]
    assert [each and (each.name, dict(each.options)) for each in frameworks] == [(framework, {"slots": 2})] * 2


@pytest.mark.parametrize(
    ("spec", "clean", "restart"),
    [
        ({"cleanPodPolicy": "All"}, Clean.RUNNING, JobRestart()),
        ({"cleanPodPolicy": "None"}, Clean.NONE, JobRestart()),
        ({"restartPolicy": "OnFailure"}, Clean.RUNNING, JobRestart(6)),
        ({"restartPolicy": "OnFailure", "backoffLimit": 2}, Clean.RUNNING, JobRestart(2)),
        ({"restartPolicy": "OnFailure", "backoffLimit": 0}, Clean.RUNNING, JobRestart()),
        ({"restartPolicy": "Never", "backoffLimit": 2}, Clean.RUNNING, JobRestart()),
    ],
)
def test_its_end_is_that_of_the_operator(spec: dict[str, Any], clean: Clean, restart: JobRestart) -> None:
    ending = job(document(**spec)).ending
    assert (ending.clean, ending.restart) == (clean, restart)


def test_a_generated_name_is_used_without_its_random_end() -> None:
    found = document()
    found["metadata"] = {"generateName": "train-"}
    parsed = parse_job(found)
    assert parsed.job.name == "train"
    assert any(warning.startswith("metadata.generateName") for warning in parsed.warnings)


def test_labels_of_the_job_become_tags_and_status_is_nothing() -> None:
    found = document()
    found["metadata"]["labels"] = {"team": "vision"}
    found["status"] = {"phase": "Running", "anything": [1]}
    assert job(found).tags == {"team": "vision"}


def test_a_worker_restarts_as_its_policy_says() -> None:
    found = document()
    at(found, WORKER)["restartPolicy"] = "ExitCode"
    restart = worker(found).restart
    assert (restart.policy, restart.limit) == (RestartOn.ON_FAILURE, None)
    assert 137 in restart.codes
    assert 1 not in restart.codes


def test_the_container_becomes_the_component() -> None:
    found = with_worker(
        command=["train"],
        args=["--epochs", "$(EPOCHS)", "$(UNKNOWN)", "$$(EPOCHS)"],
        workingDir="/src",
        ports=[{"containerPort": 8080, "name": "http"}, {"containerPort": 9}],
        readinessProbe={"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 1},
        resources={"limits": {"nvidia.com/gpu": "2", "memory": "1.5Gi", "ephemeral-storage": "2G"}},
        volumeMounts=[
            {"name": "data", "mountPath": "/data", "readOnly": True},
            {"name": "shm", "mountPath": "/dev/shm"},
        ],
        securityContext={"runAsUser": 1000, "runAsGroup": 100},
    )
    pod = at(found, f"{WORKER}.template.spec")
    pod["volumes"] = [
        {"name": "data", "hostPath": {"path": "/datasets", "type": "Directory"}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
    ]
    pod |= {"nodeSelector": {"gpu_model": "A100"}, "terminationGracePeriodSeconds": 30, "activeDeadlineSeconds": 60}
    made = worker(found)
    assert made.command == ("train", "--epochs", "3", "$(UNKNOWN)", "$(EPOCHS)")
    assert made.container.entrypoint == ()
    assert made.cwd == "/src"
    assert made.ports == ("http", "port-9")
    assert made.ready == Ready(port="http")
    assert made.resources == Resources(memory=3 << 29, gpu=2000, disk=2_000_000_000)
    assert made.container.mounts == (Mount("/datasets", "/data", True),)
    assert made.container.shm == 1 << 30
    assert made.container.user == "1000:100"
    assert made.where == {"gpu_model": ("A100",)}
    assert (made.grace, made.timeout) == (30.0, 60.0)


def test_only_arguments_keep_the_entrypoint_of_the_image() -> None:
    made = worker(with_worker(args=["--epochs", 3]))
    assert made.command == ("--epochs", "3")
    assert made.container.entrypoint is None


@pytest.mark.parametrize(
    "name",
    [
        "initialDelaySeconds",
        "periodSeconds",
        "timeoutSeconds",
        "successThreshold",
        "failureThreshold",
        "terminationGracePeriodSeconds",
    ],
)
def test_the_timing_of_a_readiness_probe_is_ignored_with_a_warning(name: str) -> None:
    found = with_worker(ports=[{"containerPort": 8080}], readinessProbe={"tcpSocket": {"port": 8080}, name: 5})
    (warning,) = [each for each in parse_job(found).warnings if "readinessProbe" in each]
    assert warning.startswith(f"{CONTAINER}.readinessProbe.{name}: ignored") and "until it passes once" in warning


def test_every_kind_of_ignored_key_is_one_warning_with_its_paths() -> None:
    found = with_pod(serviceAccountName="a", tolerations=[{"key": "gpu"}])
    at(found, f"{LAUNCHER}.template.spec")["serviceAccountName"] = "a"
    warnings = [warning for warning in parse_job(found).warnings if "service account" in warning]
    assert len(warnings) == 1
    assert warnings[0].startswith(f"{LAUNCHER}.template.spec.serviceAccountName, {WORKER}.template.spec.service")


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        (document() | {"apiVersion": "kai.alibabacloud.com/v2"}, "apiVersion: unknown version of TrainingJob"),
        (document() | {"kind": "Pod"}, 'kind: unknown kind "Pod"; these are read: TrainingJob (kai.'),
        (document() | {"kind": "Trainingjob"}, 'kind: unknown kind "Trainingjob"; did you mean `TrainingJob`?'),
        ({"kind": "TrainingJob"}, "apiVersion: is missing"),
        (document(etReplicaSpecs=None), "spec.etReplicaSpecs: is missing; it needs a launcher and a worker"),
        (document(colour="red"), "spec.colour: unknown key"),
        (document(cleanPodPolicy="Some"), "spec.cleanPodPolicy: must be one of All, Running, None"),
        (document(backoffLimit=-1), "spec.backoffLimit: must be at least 0, got -1"),
        (with_pod(initContainers=[]), f"{WORKER}.template.spec.initContainers: is not supported"),
        (with_pod(nodeName="n1"), f"{WORKER}.template.spec.nodeName: is not supported"),
        (with_pod(containers=[]), f"{WORKER}.template.spec.containers: must have one container"),
        (with_pod(volumes=[{"name": "v", "secret": {}}]), f"{WORKER}.template.spec.volumes[0].secret: is not"),
        (
            with_worker(env=[{"name": "A", "valueFrom": {"secretKeyRef": {}}}]),
            f"{CONTAINER}.env[0].valueFrom.secretKey",
        ),
        (
            with_worker(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
            f"{CONTAINER}.env[0].valueFrom.fieldRef: is not supported; use GRASS_TASK",
        ),
        (with_worker(env=[{"value": "b"}]), f"{CONTAINER}.env[0].name: is missing"),
        (with_worker(envFrom=[]), f"{CONTAINER}.envFrom: is not supported"),
        (with_worker(resources={"limits": {"cpu": "-1"}}), f"{CONTAINER}.resources.limits.cpu: must not be negative"),
        (with_worker(resources={"limits": {"cpu": "much"}}), f"{CONTAINER}.resources.limits.cpu: must be a Kubernetes"),
        (with_worker(resources={"limits": {"amd.com/gpu": 1}}), f'{CONTAINER}.resources.limits."amd.com/gpu": is not'),
        (with_worker(resources={"limits": {"nvidia.com/gpu": "0.5"}}), f'{CONTAINER}.resources.limits."nvidia.com/gpu'),
        (with_worker(volumeMounts=[{"name": "x", "mountPath": "/x"}]), f"{CONTAINER}.volumeMounts[0].name: unknown"),
        (with_worker(securityContext={"privileged": True}), f"{CONTAINER}.securityContext.privileged: is not"),
        (with_worker(ports=[{"containerPort": 70000}]), f"{CONTAINER}.ports[0].containerPort: must be at most 65535"),
        (with_worker(cmd=["x"]), f"{CONTAINER}.cmd: unknown key; did you mean `command`?"),
    ],
)
def test_what_would_change_the_meaning_is_refused_with_its_path(found: dict[str, Any], problem: str) -> None:
    assert any(each.startswith(problem) for each in problems(found)), problems(found)


@pytest.mark.parametrize(
    ("sizes", "problem"),
    [
        ({"minReplicas": 5}, "minReplicas: must be at most maxReplicas, which is 4; got 5"),
        ({"replicas": 9}, "replicas: must be at most maxReplicas, which is 4; got 9"),
        ({"minReplicas": 3}, "replicas: must be at least minReplicas, which is 3; got 2"),
        ({"replicas": -2}, "replicas: must be at least 1, got -2"),
    ],
)
def test_sizes_that_do_not_fit_are_refused_in_the_words_of_the_file(sizes: dict[str, int], problem: str) -> None:
    found = document()
    at(found, WORKER).update(sizes)
    assert f"{WORKER}.{problem}" in problems(found)


def test_two_launchers_and_a_suspended_job_are_refused() -> None:
    found = document()
    at(found, LAUNCHER)["replicas"] = 2
    found["metadata"]["annotations"] = {"job-supervisor.kube-ai.io/job-suspended": "true"}
    assert [each.split(":")[0] for each in problems(found)] == [
        'metadata.annotations."job-supervisor.kube-ai.io/job-suspended"',
        f"{LAUNCHER}.replicas",
    ]
