from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grass.errors import InputError
from grass.model.isolation import UIDS, ContainerRights, ContainerUser
from grass.model.job import Container, Mount
from grass.node_config import NodeConfig, NodeHome
from node.runtime.docker import share
from node.runtime.docker.plan import allowed, over_image, request, with_rights
from node.runtime.protocol import Launch, Start

CONFIG = NodeHome(name="lab", mode="local", home="/h", runtime_dir="/r", node=NodeConfig(name="n1"))
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


def test_a_container_has_the_variable_of_its_folder_and_defaults_that_its_image_does_not_set() -> None:
    launch = LAUNCH._replace(defaults={"OMP_NUM_THREADS": "2"}, env={"PWD": "/elsewhere"})
    image = {"WorkingDir": "/app", "Env": ["PATH=/bin"]}
    assert {"PWD=/app", "OMP_NUM_THREADS=2"} <= set(over_image(made(launch), launch, image)["Env"])
    env = over_image(made(launch), launch._replace(cwd="/data/ann"), {"WorkingDir": "", "Env": ["OMP_NUM_THREADS=9"]})
    assert [entry for entry in env["Env"] if entry.startswith(("PWD", "OMP"))] == ["PWD=/data/ann"]
    assert "PWD=/" in over_image(made(launch), launch, {})["Env"]
    own = launch._replace(env={"OMP_NUM_THREADS": "7"})
    assert "OMP_NUM_THREADS=2" not in over_image(made(own), own, image)["Env"]


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


def test_a_stop_signal_is_named_to_the_engine_and_noted_on_the_container() -> None:
    body = made(LAUNCH._replace(stop_signal=signal.SIGUSR1))
    assert (body["StopSignal"], body["Labels"]["grass.stop-signal"]) == ("SIGUSR1", "SIGUSR1")
    assert "StopSignal" not in made() and "grass.stop-signal" not in made()["Labels"]


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
        with pytest.raises(InputError, match="this node allows"):
            allowed(Mount(source, "/x"), folders)
    with pytest.raises(InputError, match="no paths of the host"):
        allowed(Mount("/etc", "/x"), ())


ISOLATED = replace(CONFIG, node=NodeConfig(name="n1", isolate=UIDS))
SEEN = LAUNCH._replace(env={"GRASS_OUTPUT": "/h/data/jobs/train-1"}, user="ann")


def isolated(config: NodeHome = ISOLATED, launch: Launch = SEEN, **container: Any) -> dict[str, Any]:
    return request(config, START, launch._replace(container=Container(**container)), "/scratch", 4)


def mounts_of(body: dict[str, Any]) -> list[tuple[str, str, str | None, bool]]:
    found = body["HostConfig"]["Mounts"]
    return [(each["Type"], each["Target"], each.get("Source"), each.get("ReadOnly", False)) for each in found]


def test_an_isolated_container_sees_its_own_job_in_the_share_only(tmp_path: Path) -> None:
    for folder in ("jobs/before-1", "jobs/other-1", "sets", "logs", "data/bob", "data/shared/bob"):
        (tmp_path / folder).mkdir(parents=True)
    config, share = replace(ISOLATED, share=str(tmp_path)), str(tmp_path)
    body = isolated(config, SEEN._replace(awaited=("before-1", "gone-1")), data="/d")
    assert mounts_of(body)[:8] == [
        ("tmpfs", "/d", None, True),  # never the share itself: what covers a part of it is lost while it is away
        ("bind", "/d/sets", f"{share}/sets", True),
        ("bind", "/d/data/ann", f"{share}/data/ann", False),
        ("tmpfs", "/d/data/shared", None, True),
        ("bind", "/d/data/shared/ann", f"{share}/data/shared/ann", False),
        ("bind", "/d/data/shared/bob", f"{share}/data/shared/bob", True),
        ("bind", "/d/jobs/train-1", f"{share}/jobs/train-1", False),
        ("bind", "/d/jobs/before-1", f"{share}/jobs/before-1", True),
    ]
    assert [each[1] for each in mounts_of(body)[8:]] == ["/scratch", "/h/node/jobs/train-1"]
    assert "Propagation" not in str(body)  # a new mount of the share would uncover what is hidden
    assert (body["HostConfig"]["CapAdd"], body["HostConfig"]["CapDrop"]) == ([], ["ALL"])


def test_an_isolated_container_runs_under_its_account_unless_the_settings_allow_its_images_user(
    tmp_path: Path,
) -> None:
    config = replace(ISOLATED, share=str(tmp_path))
    body = with_rights(isolated(config), 58_007, 900)
    assert body["User"] == "58007:900" and {"HOME=/scratch", "USER=grass-u58007"} <= set(body["Env"])
    home = with_rights(isolated(config, SEEN._replace(env={"HOME": "/work"})), 58_007, 900)["Env"]
    assert "HOME=/work" in home and "HOME=/scratch" not in home
    with pytest.raises(InputError, match="under the account of their user, not as 0"):
        isolated(config, user="0")
    rights = ContainerRights(ContainerUser.IMAGE, ("CHOWN", "SETUID"))
    open_to_root = replace(config, node=replace(ISOLATED.node, containers=rights))
    body = with_rights(isolated(open_to_root, user="0"), None, 900)
    assert (body["User"], body["HostConfig"]["GroupAdd"]) == ("0", ["900"])
    assert body["HostConfig"]["CapAdd"] == ["CHOWN", "SETUID"]


def test_read_only_data_leaves_the_jobs_own_folder_writable(tmp_path: Path) -> None:
    (tmp_path / "jobs" / "train-1").mkdir(parents=True)
    config, launch = replace(ISOLATED, share=str(tmp_path)), SEEN._replace(read_only_data=True)
    mounts = (Mount("/jobs/train-1", "/own", shared=True), Mount("/", "/all", shared=True))
    read_only = {each[1]: each[3] for each in mounts_of(isolated(config, launch, data="/d", mounts=mounts))}
    assert all(read_only[each] for each in ("/d", "/all", "/d/data/ann", "/all/data/ann", "/all/data/shared"))
    assert read_only["/d/data/shared/ann"] and read_only["/all/data/shared/ann"]
    assert not (read_only["/d/jobs/train-1"] or read_only["/all/jobs/train-1"] or read_only["/own"])


def test_mounts_of_the_share_uncover_nothing(tmp_path: Path) -> None:
    (tmp_path / "jobs" / "train-1").mkdir(parents=True)
    (tmp_path / "data" / "ann").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "logs")
    (tmp_path / "data" / "ann" / "link").symlink_to("../bob")
    config = replace(ISOLATED, share=str(tmp_path))

    def mounted(source: str) -> list[tuple[str, str, str | None, bool]]:
        body = isolated(config, mounts=(Mount(source, "/x", read_only=True, shared=True),))
        return [each for each in mounts_of(body) if each[1].startswith("/x")]

    assert [each[:2] for each in mounted("/")] == [
        ("tmpfs", "/x"),
        ("bind", "/x/data/ann"),
        ("tmpfs", "/x/data/shared"),
        ("bind", "/x/data/shared/ann"),
        ("bind", "/x/jobs/train-1"),
    ]
    assert mounted("/")[0][3] and mounted("/x/..") == mounted("/")
    assert mounted("/jobs/train-1") == [("bind", "/x", f"{tmp_path}/jobs/train-1", True)]
    assert [each[1:] for each in mounted("/data")] == [
        ("/x", None, True),
        ("/x/ann", f"{tmp_path}/data/ann", True),
        ("/x/shared", None, True),
        ("/x/shared/ann", f"{tmp_path}/data/shared/ann", True),
    ]
    for source in (
        "/data/bob",
        "/data/bob/x",
        "/data/ann/link",
        "/data/ann/../bob",
        "/data/shared/../bob",
        "/jobs",
        "/jobs/other-1",
        "/jobs/train-1/../other-1",
        "/logs/x",
        "/images",
        "/link",
    ):
        with pytest.raises(InputError, match="is not for tasks"):
            mounted(source)
    with pytest.raises(InputError, match="could put a link in its place"):  # this share is no cifs or FUSE mount
        mounted("/sets")
    assert not (tmp_path / "sets").exists()


@pytest.mark.parametrize("read_only", [False, True])
def test_the_folder_of_all_is_read_only_and_the_users_own_in_it_is_not(tmp_path: Path, read_only: bool) -> None:
    config = replace(ISOLATED, share=str(tmp_path))
    (tmp_path / "data" / "shared" / "ann").mkdir(parents=True)
    mount = Mount("/data/shared", "/x", read_only=read_only, shared=True)
    found = [(each["Target"], each["ReadOnly"]) for each in share.shared(config, SEEN, "train-1", mount, "cifs")]
    assert found == [("/x", True), ("/x/ann", read_only)]
    for launch in (SEEN._replace(read_only_data=True), SEEN._replace(user="a/b")):
        assert all(each["ReadOnly"] for each in share.shared(config, launch, "train-1", mount, "cifs"))


def test_a_link_in_place_of_a_users_folder_is_no_mount(tmp_path: Path) -> None:
    (tmp_path / "data" / "shared").mkdir(parents=True)
    (tmp_path / "data" / "shared" / "ann").symlink_to("../bob")
    config = replace(ISOLATED, share=str(tmp_path))
    assert not [each for each in mounts_of(isolated(config)) if each[1].endswith("/shared/ann")]
    mount = Mount("/data/shared", "/x", shared=True)
    assert [each["Target"] for each in share.shared(config, SEEN, "train-1", mount, "cifs")] == ["/x"]
    with pytest.raises(InputError, match="is not for tasks"):
        share.shared(config, SEEN, "train-1", Mount("/data/shared/ann", "/x", shared=True), "cifs")


@pytest.mark.parametrize("kind", ["cifs", "smb3", "fuse.rclone"])
def test_a_folder_beside_those_of_users_is_mounted_read_only_and_never_made(tmp_path: Path, kind: str) -> None:
    config = replace(ISOLATED, share=str(tmp_path))
    (tmp_path / "sets").mkdir()

    def mounted(source: str) -> tuple[str, bool]:
        [found] = share.shared(config, SEEN, "train-1", Mount(source, "/x", shared=True), kind)
        return found["Source"], found["ReadOnly"]

    assert mounted("/sets") == (f"{tmp_path}/sets", True)
    for source in ("/data/ann/new", "/data/shared/ann/new", "/jobs/train-1/new"):
        assert mounted(source) == (f"{tmp_path}{source}", False)
        assert (tmp_path / source[1:]).is_dir()
    (tmp_path / "data" / "shared" / "bob").mkdir()
    assert mounted("/data/shared/bob") == (f"{tmp_path}/data/shared/bob", True)
    for missing in ("/gone", "/sets/gone", "/data/shared/gone"):
        with pytest.raises(InputError, match=f"the share has no folder {missing}"):
            mounted(missing)
        assert not (tmp_path / missing[1:]).exists()
