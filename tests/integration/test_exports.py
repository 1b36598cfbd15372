"""Exported jobs in other systems: a Slurm of Debian runs them, its Docker Compose reads them, torch finds its peers.

Kubernetes has a file of its own, ``test_kubernetes_export``."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from grass.manifest import parse_job, read_document
from grass.manifest.document import read_documents
from grass.manifest.export.formats import FORMATS
from tests.support.example_run import free_port
from tests.support.frameworks import torch_folder
from tests.support.needs import require
from tests.support.slurm import Slurm, slurm

pytestmark = [pytest.mark.nightly, pytest.mark.needs_root]

MEET = """import torch, torch.distributed as dist
dist.init_process_group("gloo", init_method="env://")
total = torch.tensor([dist.get_rank() + 1])
dist.all_reduce(total)
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: {int(total)}")
dist.destroy_process_group()
"""


def exported(format: str, **document: Any) -> str:
    return FORMATS[format](parse_job({"name": "My.job", **document}).job).text


@pytest.fixture(scope="module")
def cluster_of_slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    with slurm(tmp_path_factory.mktemp("slurm")) as made:
        yield made


def test_slurm_runs_an_exported_array(cluster_of_slurm: Slurm) -> None:
    part = {
        "command": 'echo "$GRASS_INDEX $A $SLURM_GPUS_ON_NODE $SLURM_CPUS_PER_TASK"',
        "replicas": 3,
        "parallelism": 2,
        "env": {"A": "it's $5"},
        "timeout": "5m",
        "resources": {"cpu": 1.5, "gpu": 1, "memory": "100MiB"},
    }
    said = cluster_of_slurm.submit(exported("slurm", components={"main": part}))
    assert said.splitlines() == [f"{index} it's $5 1 2" for index in range(3)]


def test_slurm_runs_all_components_at_once_and_fails_as_one_of_them_does(cluster_of_slurm: Slurm) -> None:
    """The two workers fit only on two nodes: what each needs must not be asked of each node."""
    size = {"cpu": 1, "memory": "1200MiB", "gpu": 1}
    parts = {
        "worker": {"command": 'echo "w$GRASS_INDEX"; exit $GRASS_INDEX', "replicas": 2, "resources": size},
    }
    parts["head"] = {"command": ["echo", "head"], "resources": {"cpu": 1, "memory": "10MiB"}}
    said = cluster_of_slurm.submit(exported("slurm", components=parts))
    assert {"head", "w0", "w1"} <= set(said.splitlines())
    assert "1:0" in cluster_of_slurm.exit_codes()


def test_slurm_accepts_every_example_of_a_job(cluster_of_slurm: Slurm) -> None:
    script = cluster_of_slurm.folder / "example.sh"
    for path in sorted(Path("examples").glob("*/job.yml")):
        job = parse_job(read_document(path.read_bytes())).job
        script.write_text(FORMATS["slurm"](job).text)
        cluster_of_slurm.run("sbatch", "--test-only", str(script))


def test_docker_compose_reads_an_exported_job(tmp_path: Path) -> None:
    """Compose 1.29, which Debian 12 has, lacks the name of a project: `name` came with version 2."""
    require(shutil.which("docker-compose") is not None, "docker-compose", "Debian's docker-compose")
    parts = {
        "server": {
            "command": 'echo "$HOME"',
            "image": "a",
            "ready": {"command": "test -e up"},
            "restart": {"limit": 3},
            "grace": "3s",
            "resources": {"cpu": 0.5, "memory": "1GiB"},
            "container": {"shm": "64MiB", "user": "1000:1000", "ulimits": {"nofile": 99}, "mounts": ["/data:/d:ro"]},
        },
        "client": {
            "command": ["ask", "a b"],
            "image": "b",
            "depends_on": {"server": "ready"},
            "replicas": 2,
            "restart": {"policy": "always", "limit": "unlimited"},
            "container": {"network": "host"},
        },
    }
    document = yaml.safe_load(exported("compose", components=parts))
    assert document.pop("name") == "my-job"
    (tmp_path / "job.yml").write_text(yaml.safe_dump(document))
    words = ["docker-compose", "--file", str(tmp_path / "job.yml"), "config"]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    read = yaml.safe_load(ran.stdout)["services"]
    assert read["server"]["command"] == ["/bin/sh", "-c", 'echo "$$HOME"'], json.dumps(read)
    assert read["server"]["deploy"]["restart_policy"] == {"condition": "on-failure", "max_attempts": 3}
    for index in range(2):
        client = read[f"client-{index}"]
        assert client["depends_on"] == {"server": {"condition": "service_healthy"}}
        assert client["environment"] == {"GRASS_INDEX": str(index)}


@pytest.mark.parametrize("framework", ["torch", "torchrun"])
def test_stock_torch_meets_by_what_exported_pods_have(framework: str, tmp_path: Path) -> None:
    """The pods of a job as processes of this machine, on which the names of all pods are its own."""
    folder, port = torch_folder(), str(free_port())
    program = tmp_path / "meet.py"
    program.write_text(MEET)
    words = [str(folder / "bin" / ("torchrun" if framework == "torchrun" else "python")), str(program)]
    part = {"command": words, "image": "i", "replicas": 2, "framework": framework}
    pods = [
        each for each in read_documents(exported("kubernetes-pods", components={"w": part})) if each["kind"] == "Pod"
    ]
    began = []
    for each in pods:
        (task,) = each["spec"]["containers"]
        env = {one["name"]: one["value"] for one in task["env"] if "value" in one}
        here = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "PET_RDZV_ENDPOINT": f"127.0.0.1:{port}"}
        env |= {name: value for name, value in here.items() if name in env}
        env |= {
            "HOME": str(tmp_path),
            "PET_LOG_DIR": str(tmp_path),
            "GLOO_SOCKET_IFNAME": "lo",
            "PATH": "/usr/bin:/bin",
        }
        began.append(subprocess.Popen(task["args"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    said = [each.communicate(timeout=50) for each in began]
    assert [each.returncode for each in began] == [0, 0], said
    assert sorted(out for out, _ in said) == ["rank 0 of 2: 3\n", "rank 1 of 2: 3\n"]
