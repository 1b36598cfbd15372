"""What a node says it has: by itself, by its settings, without its reserve."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from grass.model.machine_labels import short_model
from grass.model.resources import Resources
from grass.node_config import KubernetesConfig, NodeConfig, NodeHome
from grass.system.usable_resources import machine_memory
from grass.wire.gpu import GpuDevice
from grass.wire.hello import Hello
from node.agent.hello import hello
from node.agent.labels import found
from node.agent.machine import Offer
from node.agent.this_machine import ThisMachine
from tests.support.needs import require_root

GPUS = [GpuDevice(index, name="NVIDIA A100-SXM4-40GB", memory=40 << 30) for index in range(4)]


def said(tmp_path: Path, gpus: Sequence[GpuDevice] = tuple(GPUS), **node: Any) -> Hello:
    config = NodeHome("lab", "local", str(tmp_path), str(tmp_path), node=NodeConfig(**node))
    return hello(config.node, this_machine(config, gpus).offer())


def this_machine(config: NodeHome, gpus: Sequence[GpuDevice]) -> ThisMachine:
    return ThisMachine(config, {}, gpus, lambda: None, list, lambda sample: None)


def test_what_the_settings_do_not_say_is_what_the_machine_has(tmp_path: Path) -> None:
    body = said(tmp_path)
    assert body.resources.cpu >= 1000 and body.resources.memory > 1 << 20
    assert body.resources.disk > 0
    assert (body.resources.gpu, len(body.gpus)) == (4000, 4)
    assert body.labels["gpu_model"] == "A100" and body.labels["os"] == "linux" and body.labels["arch"]


def test_a_namespace_says_which_image_tasks_without_one_get() -> None:
    def image(of: KubernetesConfig | None) -> str:
        return hello(NodeConfig(runtimes=("kubernetes",), kubernetes=of), Offer(Resources())).default_image

    assert image(KubernetesConfig("lab", image="python:3.12")) == "python:3.12"
    assert image(KubernetesConfig("lab")) == image(None) == ""


@pytest.fixture
def limited() -> Iterator[Path]:
    """A control group of this machine whose programs may use 256 MiB."""
    require_root()
    groups = Path("/sys/fs/cgroup/memory")
    if not groups.is_dir():
        pytest.skip("needs control groups version 1")
    folder = groups / f"grass-hello-{os.getpid()}"
    folder.mkdir()
    (folder / "memory.limit_in_bytes").write_text(str(256 << 20))
    yield folder
    folder.rmdir()


@pytest.mark.needs_root
def test_limits_of_the_node_agents_own_unit_do_not_bound_what_tasks_get(tmp_path: Path, limited: Path) -> None:
    program = (
        "import sys; open(sys.argv[1], 'w').write('0')\n"
        "from tests.unit.test_node_hello import said\nfrom pathlib import Path\n"
        "print(said(Path(sys.argv[2])).resources.memory)"
    )
    argv = [sys.executable, "-c", program, str(limited / "cgroup.procs"), str(tmp_path)]
    assert int(subprocess.run(argv, capture_output=True, text=True, check=True).stdout) == machine_memory()


def test_zero_devices_are_none_and_fewer_are_the_first(tmp_path: Path) -> None:
    assert said(tmp_path, gpu=0).gpus == ()
    assert said(tmp_path, gpu=0).resources.gpu == 0
    assert [device.id for device in said(tmp_path, gpu=2000).gpus] == [0, 1]


def test_a_node_that_joined_offers_no_more_than_it_has_whatever_was_said(tmp_path: Path) -> None:
    has = said(tmp_path, gpus=GPUS[:1]).resources
    more = {"cpu": 900_000, "memory": 1 << 49, "gpu": 3000}
    joined = said(tmp_path, gpus=GPUS[:1], probe=True, **more)
    assert {name: getattr(joined.resources, name) for name in more} == {name: getattr(has, name) for name in more}
    assert [device.id for device in joined.gpus] == [0]
    assert said(tmp_path, gpus=[], probe=True, gpu=3000).resources.gpu == 0
    less = said(tmp_path, probe=True, cpu=500, memory=1 << 20, gpu=1000).resources
    assert (less.cpu, less.memory, less.gpu) == (500, 1 << 20, 1000)


def test_the_settings_of_a_cluster_on_one_machine_may_say_that_there_is_more(tmp_path: Path) -> None:
    assert said(tmp_path, gpus=[], gpu=3000, cpu=900_000).resources.gpu == 3000


def test_the_reserve_is_kept_back(tmp_path: Path) -> None:
    body = said(
        tmp_path, cpu=4000, memory=8 << 30, disk=1 << 30, reserve={"cpu": 500, "memory": 1 << 30, "disk": 2 << 30}
    )
    assert (body.resources.cpu, body.resources.memory) == (3500, 7 << 30)
    assert body.resources.disk == 0


def test_labels_topology_and_things_of_its_own_are_said(tmp_path: Path) -> None:
    body = said(
        tmp_path, gpus=[], labels={"zone": "a", "os": "mine"}, path=("r1", "s1"), custom={"licences": 4, "no": 0}
    )
    assert (body.labels["zone"], body.labels["os"]) == ("a", "mine")
    assert "gpu_model" not in body.labels
    assert body.path == ("r1", "s1")
    assert body.resources.custom == (("licences", 4),)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("NVIDIA A100-SXM4-40GB", "A100"),
        ("NVIDIA A100 80GB PCIe", "A100"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA H100 NVL", "H100"),
        ("Tesla V100-SXM2-16GB", "V100"),
        ("Tesla T4", "T4"),
        ("NVIDIA GeForce RTX 3090", "RTX 3090"),
        ("NVIDIA RTX A6000", "RTX A6000"),
        ("40GB", "40GB"),
    ],
)
def test_models_are_called_as_people_ask_for_them(name: str, short: str) -> None:
    assert short_model(name) == short


def test_a_device_without_a_name_gives_no_label() -> None:
    assert found("x86_64", "Linux", [GpuDevice(0)]) == {"arch": "x86_64", "os": "linux"}


def test_the_kind_of_file_system_of_a_mounted_share_is_a_label(tmp_path: Path) -> None:
    assert found("x86_64", "Linux", [], "fuse.rclone") == {"arch": "x86_64", "os": "linux", "share": "fuse"}
    assert "share" not in said(tmp_path).labels
    config = NodeHome("lab", "m", str(tmp_path), str(tmp_path), share="/proc", node=NodeConfig())
    assert this_machine(config, []).offer().labels["share"] == "proc"
