from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grass.config import ClusterConfig, NodeConfig
from grass.model.job import Container, Mount
from node.runtime.docker.plan import allowed, request
from node.runtime.protocol import Launch, Start
from node.runtime.spawn import CannotStartError

CONFIG = ClusterConfig(name="lab", mode="local", home="/h", runtime_dir="/r", node=NodeConfig(name="n1"))
LAUNCH = Launch(["train", "--fast"], {"EPOCHS": "5", "GRASS_DATA": "/h/data"}, None, 5.0, runtime="docker", image="i:1")
START = Start("train-1/actor.3/2", "train-1/actor", {"GRASS_INDEX": "3"})


def made(launch: Launch = LAUNCH, start: Start = START, **container: Any) -> dict[str, Any]:
    return request(CONFIG, start, launch._replace(container=Container(**container)), "/scratch", 4)


def test_a_plain_container() -> None:
    body = made()
    assert (body["Image"], body["Cmd"]) == ("i:1", ["train", "--fast"])
    assert {"Entrypoint", "User", "WorkingDir", "ExposedPorts"}.isdisjoint(body)
    assert {"EPOCHS=5", "GRASS_INDEX=3", "GRASS_DATA=/h/data", "GRASS_SCRATCH=/scratch"} <= set(body["Env"])
    labels = {
        name: body["Labels"]["grass." + name] for name in ("cluster", "node", "job", "component", "task", "attempt")
    }
    assert list(labels.values()) == ["lab", "n1", "train-1", "actor", "actor.3", "train-1/actor.3/2"]
    host = body["HostConfig"]
    assert host["NetworkMode"] == "host" and {"NanoCpus", "Memory", "ShmSize", "DeviceRequests"}.isdisjoint(host)
    assert [(each["Source"], each["Target"], each["ReadOnly"]) for each in host["Mounts"]] == [
        ("/h/data", "/h/data", False),
        ("/scratch", "/scratch", False),
        ("/h/node/jobs/train-1", "/h/node/jobs/train-1", True),
    ]


def test_logs_are_never_rotated_away_and_never_go_to_a_server() -> None:
    assert made()["HostConfig"]["LogConfig"]["Type"] == "local"
    assert made()["HostConfig"]["LogConfig"]["Config"]["max-size"] == "1p"


def test_limits_in_the_engines_units_within_what_it_takes() -> None:
    host = made(LAUNCH._replace(cpu=1500, memory=1 << 30))["HostConfig"]
    assert (host["NanoCpus"], host["Memory"], host["MemorySwap"]) == (1_500_000_000, 1 << 30, 1 << 30)
    assert "NanoCpus" not in made(LAUNCH._replace(cpu=9000))["HostConfig"]  # the machine has 4 cores
    assert made(LAUNCH._replace(cpu=1, memory=1))["HostConfig"]["Memory"] == 6 << 20
    assert made(LAUNCH._replace(cpu=1))["HostConfig"]["NanoCpus"] == 10_000_000


def test_devices_by_id_outside_and_from_zero_inside() -> None:
    body = made(start=START._replace(gpus=(2, 3)))
    assert body["HostConfig"]["DeviceRequests"] == [{"DeviceIDs": ["2", "3"], "Capabilities": [["gpu"]]}]
    assert "CUDA_VISIBLE_DEVICES=0,1" in body["Env"] and "NVIDIA_VISIBLE_DEVICES=void" not in body["Env"]
    assert {"CUDA_VISIBLE_DEVICES=", "NVIDIA_VISIBLE_DEVICES=void"} <= set(made()["Env"])


def test_what_the_job_says_of_its_containers() -> None:
    body = made(entrypoint=("tini",), user="7:8", shm=99, ulimits={"nofile": 5}, data="/d")
    assert (body["Entrypoint"], body["User"], body["HostConfig"]["ShmSize"]) == (["tini"], "7:8", 99)
    assert body["HostConfig"]["Ulimits"] == [{"Name": "nofile", "Soft": 5, "Hard": 5}]
    assert "GRASS_DATA=/d" in body["Env"] and body["HostConfig"]["Mounts"][0]["Target"] == "/d"
    assert made(entrypoint=())["Entrypoint"] == [""]


def test_ports_are_published_on_a_bridge_only() -> None:
    start = START._replace(ports={"web": 4000})
    assert "ExposedPorts" not in made(start=start)
    body = made(start=start, network="bridge")
    assert body["HostConfig"]["PortBindings"]["4000/tcp"] == [{"HostPort": "4000"}]


def test_only_what_really_lies_in_an_allowed_folder_may_be_mounted(tmp_path: Path) -> None:
    (tmp_path / "open" / "in").mkdir(parents=True)
    (tmp_path / "open" / "out").symlink_to("/etc")
    folders = (str(tmp_path / "open"),)
    assert allowed(Mount(f"{folders[0]}/in", "/x"), folders) == f"{folders[0]}/in"
    assert allowed(Mount(folders[0], "/x"), folders) == folders[0]
    for source in (f"{folders[0]}/out", f"{folders[0]}/../..", "/etc", f"{folders[0]}er"):
        with pytest.raises(CannotStartError, match="cannot start"):
            allowed(Mount(source, "/x"), folders)
    with pytest.raises(CannotStartError, match="no paths of the host"):
        allowed(Mount("/etc", "/x"), ())
