"""Jobs written as files of other systems, read again, and what gets lost."""

from __future__ import annotations

import io
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from grass.cli.export import export
from grass.cli.invocation import Invocation
from grass.cli.output import Output
from grass.errors import InputError, NotFoundError
from grass.manifest import parse_job, read_document
from grass.manifest.export.formats import FORMATS
from grass.model.job import Job, Restart, RestartOn
from tests.support.job_views import job_details

EXAMPLES = Path("examples/foreign")


def job(**components: Any) -> Job:
    return parse_job({"name": "j", "components": components}).job


def of_file(path: Path) -> Job:
    return parse_job(read_document(path.read_bytes())).job


@pytest.mark.parametrize(
    ("path", "format"),
    [
        (EXAMPLES / "training_job.yml", "TrainingJob"),
        (EXAMPLES / "mars_job.yml", "MarsJob"),
        (Path("tests/support/manifests/mars_job.yml"), "MarsJob"),
    ],
)
def test_a_foreign_job_is_written_back_without_a_loss(path: Path, format: str) -> None:
    original = of_file(path)
    exported = FORMATS[format](original)
    assert exported.missing == ()
    assert parse_job(read_document(exported.text)).job == original


def test_the_paths_of_the_operator_come_back() -> None:
    assert "cat /etc/edl/hostfile" in FORMATS["TrainingJob"](of_file(EXAMPLES / "training_job.yml")).text


@pytest.mark.parametrize(
    ("command", "again"),
    [
        (["deepspeed", "t.py"], 'exec deepspeed --hostfile "/job/hostfile" t.py'),
        (["horovodrun", "--host-discovery-script", "/etc/edl/discover_hosts.sh", "a b"], "discover_hosts.sh\" 'a b'"),
        (["sh", "-c", "echo $$$$ $$(A) $(A) $(date) $HOME"], "echo $$$ $$(A) 1 $$(date) $HOME"),
    ],
)
def test_a_command_of_a_training_job_comes_back_as_kubernetes_reads_it(command: list[str], again: str) -> None:
    found = read_document((EXAMPLES / "training_job.yml").read_bytes())
    container = found["spec"]["etReplicaSpecs"]["launcher"]["template"]["spec"]["containers"][0]
    container |= {"command": command, "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "$$(A) $$ $(A)"}]}
    original = parse_job(found).job
    written = read_document(FORMATS["TrainingJob"](original).text)
    assert parse_job(written).job == original
    container = written["spec"]["etReplicaSpecs"]["launcher"]["template"]["spec"]["containers"][0]
    assert container["command"][-1].endswith(again)


def test_a_limit_of_all_tasks_of_a_mars_job_comes_back() -> None:
    found = read_document((EXAMPLES / "mars_job.yml").read_bytes())
    found["spec"]["backoffLimit"] = 4
    original = parse_job(found).job
    exported = FORMATS["MarsJob"](original)
    assert (parse_job(read_document(exported.text)).job, exported.missing) == (original, ())
    worker = replace(original.components["worker"], restart=Restart(RestartOn.ON_FAILURE, 2))
    supervisor = replace(original.components["supervisor"], restart=Restart(RestartOn.ON_FAILURE, 3))
    several = replace(original, components={"supervisor": supervisor, "worker": worker})
    lost = {f"components.{name}.restart.limit" for name in several.components}
    assert set(FORMATS["MarsJob"](several).missing) == lost


def test_every_loss_of_a_training_job_is_named() -> None:
    parts = {
        "launcher": {"command": "run", "ports": ["p"], "ready": {"port": "p"}},
        "worker": {"command": "work", "spread": "node", "restart": {"limit": 2}, "resources": {"gpu": 0.5}},
        "other": {"command": "true"},
    }
    exported = FORMATS["TrainingJob"](job(**parts))
    keys = (
        "launcher.ports",
        "launcher.ready",
        "worker.spread",
        "worker.restart.limit",
        "worker.resources.gpu",
        "other",
    )
    assert {f"components.{key}" for key in keys} <= set(exported.missing)


@pytest.mark.parametrize(("format", "missing"), [("TrainingJob", "launcher"), ("MarsJob", "supervisor")])
def test_a_job_of_other_parts_is_refused(format: str, missing: str) -> None:
    with pytest.raises(InputError, match=f"job j: has no component {missing}"):
        FORMATS[format](job(main={"command": "true"}))


def test_a_compose_file_has_a_service_per_component() -> None:
    parts = {
        "server": {
            "command": 'serve "$HOST"',
            "image": "python:3.12",
            "resources": {"cpu": 0.5, "memory": "1GiB", "gpu": 1},
            "ready": {"command": ["test", "-e", "up"]},
        },
        "client": {"command": ["ask"], "replicas": 3, "depends_on": {"server": "ready"}, "timeout": "1h"},
    }
    exported = FORMATS["compose"](job(**parts))
    services = yaml.safe_load(exported.text)["services"]
    assert services["server"]["command"] == ["/bin/sh", "-c", 'serve "$$HOST"']
    assert services["server"]["healthcheck"] == {"test": ["CMD", "test", "-e", "up"]}
    assert services["server"]["deploy"]["resources"]["limits"] == {"cpus": "0.5", "memory": str(1 << 30)}
    client = services["client-2"]
    assert services.keys() == {"server", "client-0", "client-1", "client-2"}
    assert client["environment"] == {"GRASS_INDEX": "2"}
    assert client["depends_on"] == {"server": {"condition": "service_healthy"}}
    assert client["deploy"] == {"resources": {"limits": {"cpus": "1"}}}
    assert exported.missing == ("components.client.timeout",)
    assert exported.needed == ("components.client.image",)


@pytest.mark.parametrize("other", [{"replicas": 65}, {"replicas": 2, "beside": "w-1"}])
def test_tasks_that_compose_cannot_tell_apart_are_named(other: dict[str, Any]) -> None:
    beside = {other.pop("beside", "v"): {"command": "x", "image": "i", "depends_on": {"w": "running"}}}
    exported = FORMATS["compose"](job(w={"command": "x", "image": "i", **other}, **beside))
    services = yaml.safe_load(exported.text)["services"]
    assert services["w"]["deploy"]["replicas"] == other["replicas"] and "environment" not in services["w"]
    assert exported.missing == ("components.w.replicas (tasks get no GRASS_INDEX)",)


def test_a_service_waits_for_each_task_of_a_component() -> None:
    parts = {
        "w": {"command": "x", "replicas": 2, "image": "i", "container": {"network": "bridge"}},
        "v": {"command": "x", "depends_on": {"w": "succeeded"}},
    }
    services = yaml.safe_load(FORMATS["compose"](job(**parts)).text)["services"]
    ended = {"condition": "service_completed_successfully"}
    assert services["v"]["depends_on"] == {"w-0": ended, "w-1": ended}
    assert [services[name]["networks"] for name in ("w-0", "w-1")] == [{"default": {"aliases": ["w"]}}] * 2


def test_a_compose_file_waits_only_for_health_that_is_checked() -> None:
    parts = {
        "server": {"command": "serve", "image": "a", "ports": ["web"], "ready": {"port": "web"}},
        "disk": {"command": "serve", "image": "a", "ready": {"command": 'test -e "$HOME/up"'}},
        "client": {"command": "ask", "image": "a", "depends_on": {"server": "ready", "disk": "ready"}},
    }
    wanted = {"name": "j", "components": parts, "clean": "none", "success": ["client"]}
    exported = FORMATS["compose"](parse_job(wanted).job)
    services = yaml.safe_load(exported.text)["services"]
    conditions = {name: each["condition"] for name, each in services["client"]["depends_on"].items()}
    assert conditions == {"server": "service_started", "disk": "service_healthy"}
    assert services["disk"]["healthcheck"] == {"test": ["CMD-SHELL", 'test -e "$$HOME/up"']}
    keys = ("clean", "success", "components.server.ports", "components.server.ready")
    assert sorted(exported.missing) == sorted(keys)


def test_a_limit_of_restarts_stands_where_every_reader_of_compose_knows_it() -> None:
    policies = {
        "limited": {"limit": 3},
        "forever": {"limit": "unlimited", "backoff": "5s", "codes": [137]},
        "always": {"policy": "always", "limit": 2},
    }
    parts = {name: {"command": "x", "image": "i", "restart": policy} for name, policy in policies.items()}
    exported = FORMATS["compose"](job(**parts))
    services = yaml.safe_load(exported.text)["services"]
    assert {name: each["restart"] for name, each in services.items()} == {
        "limited": "on-failure",
        "forever": "on-failure",
        "always": "always",
    }
    limits = {name: each["deploy"].get("restart_policy") for name, each in services.items()}
    assert limits == {"limited": {"condition": "on-failure", "max_attempts": 3}, "forever": None, "always": None}
    keys = {"forever.restart.codes", "forever.restart.backoff", "always.restart.limit"}
    assert set(exported.missing) == {f"components.{key}" for key in keys}


def test_slurm_restarts_nothing_that_fails() -> None:
    exported = FORMATS["slurm"](job(main={"command": "x", "restart": {"limit": 2}}))
    assert "#SBATCH --requeue\n" in exported.text
    assert exported.missing == ("components.main.restart",)


def test_an_array_becomes_an_array_of_slurm() -> None:
    part = {
        "command": ["python", "a b.py"],
        "replicas": 10,
        "parallelism": 4,
        "resources": {"cpu": 1.5, "memory": "1GiB", "gpu": 2},
        "timeout": "90s",
        "env": {"A": "it's"},
        "spread": "node",
    }
    exported = FORMATS["slurm"](job(main=part))
    for line in (
        "--array=0-9%4",
        "--cpus-per-task=2",
        "--mem-per-cpu=512M",
        "--gpus-per-task=2",
        "--time=2",
        "--job-name=j",
    ):
        assert f"#SBATCH {line}\n" in exported.text
    assert exported.missing == ("components.main.spread",)
    subprocess.run(["bash", "-n", "-c", exported.text], check=True)


def test_the_script_of_slurm_runs_the_command_with_its_environment() -> None:
    part = {"command": 'echo "$GREETING $0"', "env": {"GREETING": "it's me"}}
    script = FORMATS["slurm"](job(main=part)).text
    ran = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("it's me")


def test_a_name_becomes_one_that_compose_accepts() -> None:
    named = parse_job({"name": "My.job_1", "components": {"a": {"command": "x", "image": "i"}}}).job
    assert yaml.safe_load(FORMATS["compose"](named).text)["name"] == "my-job_1"


@pytest.mark.parametrize("codes", [(0, 0), (3, 0), (0, 3)])
def test_a_failure_of_any_component_is_the_outcome_of_the_heterogeneous_job(codes: tuple[int, int]) -> None:
    parts = {name: {"command": f"exit {code}"} for name, code in zip("ab", codes, strict=True)}
    script = 'srun() { while [ "$1" != bash ]; do shift; done; "$@"; }\n' + FORMATS["slurm"](job(**parts)).text
    assert subprocess.run(["bash", "-c", script], check=False).returncode == max(codes)


def test_several_components_are_one_heterogeneous_job() -> None:
    exported = FORMATS["slurm"](job(a={"command": "x"}, b={"command": "y", "replicas": 2, "depends_on": ["a"]}))
    assert exported.text.count("#SBATCH hetjob") == 1
    assert "srun --het-group=1 --ntasks=2 --cpus-per-task=1 bash -c" in exported.text
    assert exported.missing == ("components.b.depends_on",)


def test_a_native_file_loses_nothing() -> None:
    original = job(main={"command": "x", "matrix": {"a": [1, 2]}, "spread": "node"})
    exported = FORMATS["native"](original)
    assert (parse_job(read_document(exported.text)).job, exported.missing) == (original, ())


def test_a_mars_job_gets_back_its_web_service_and_the_commands_of_kubedl() -> None:
    written = read_document(FORMATS["MarsJob"](of_file(Path("tests/support/manifests/mars_job.yml"))).text)
    roles = written["spec"]["marsReplicaSpecs"]
    commands = {name: role["template"]["spec"]["containers"][0]["command"][2] for name, role in roles.items()}
    assert commands == {
        "Scheduler": "python -m mars.deploy.kubernetes.scheduler",
        "WebService": "python -m mars.deploy.kubernetes.web",
        "Worker": "python -m mars.deploy.kubernetes.worker",
    }


def test_what_the_parts_of_a_heterogeneous_job_lose_is_named() -> None:
    parts = {"a": {"command": "x", "timeout": "1h", "replicas": 4, "parallelism": 2}, "b": {"command": "y"}}
    assert set(FORMATS["slurm"](job(**parts)).missing) == {"components.a.timeout", "components.a.parallelism"}


def test_a_folder_of_the_share_is_no_folder_of_the_host() -> None:
    mounts = [{"source": "/in", "target": "/in", "shared": True}, {"source": "/srv", "target": "/srv"}]
    exported = FORMATS["compose"](job(a={"command": "x", "image": "i", "container": {"mounts": mounts}}))
    assert yaml.safe_load(exported.text)["services"]["a"]["volumes"] == ["/srv:/srv"]
    assert exported.missing == ("components.a.container.mounts",)


def test_a_job_that_is_being_deleted_cannot_be_exported() -> None:
    cluster: Any = SimpleNamespace(job=lambda name: job_details(name=name))
    invocation = Invocation(Output(io.StringIO(), io.StringIO()), _client=cluster)
    with pytest.raises(NotFoundError, match="job j: not found; it is being deleted"):
        export.main(["j"], obj=invocation, standalone_mode=False)
