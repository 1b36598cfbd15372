"""The share through FUSE: a real rclone, mounted by the program that the unit runs.

Another mount namespace stands for a container. rclone's server is a folder of this machine."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from grass.node_config import NodeConfig, NodeHome
from node.mounts import detach, mounts
from node.runtime.docker.plan import request
from node.runtime.protocol import Launch, Start
from tests.support.example_run import listening
from tests.support.needs import require, require_root
from tests.support.waiting import wait_until

pytestmark = pytest.mark.needs_root
HUNG = 2.0
hangs_soon = pytest.mark.parametrize("hung", [HUNG])


@dataclass
class Mount:
    """``server``: the folder that rclone serves at ``folder``."""

    server: Path
    folder: Path
    argv: list[str]
    process: subprocess.Popen[bytes] | None = None

    def start(self, environment: Mapping[str, str] | None = None) -> None:
        before = self.depth()
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(self.argv, stderr=log, env=environment)
        wait_until(lambda: self.depth() == before + 1 and self.sees("hello"), what="the mount")

    def depth(self) -> int:
        return sum(each.point == str(self.folder) for each in mounts())

    def sees(self, name: str) -> bool:
        return there(self.folder / name)

    def rclone(self) -> psutil.Process:
        assert self.process is not None
        (child,) = (each for each in psutil.Process(self.process.pid).children() if each.name() == "rclone")
        return child

    def ended(self) -> str:
        """What it said."""
        assert self.process is not None
        self.process.wait(20)
        return self.log.read_text()

    @property
    def log(self) -> Path:
        return self.server.parent / "log"


def there(path: Path) -> bool:
    """Return whether it exists. An ended mount has nothing."""
    try:
        return path.exists()
    except OSError as error:
        assert error.errno == errno.ENOTCONN
        return False


def dead(folder: Path) -> bool:
    try:
        (folder / "hello").stat()  # what the kernel remembers of it is good for a second
    except OSError as error:
        return error.errno == errno.ENOTCONN
    return False


@pytest.fixture
def server() -> Iterator[socket.socket]:
    """Where the server accepts connections. Nobody else takes the port when it is closed."""
    with listening() as made:
        yield made


@pytest.fixture
def hung() -> float:
    """Seconds without an answer after which a mount counts as hung."""
    return 60.0


@pytest.fixture
def mount(tmp_path: Path, server: socket.socket, hung: float) -> Iterator[Mount]:
    require_root()
    require(shutil.which("rclone") is not None and shutil.which("fusermount3") is not None, "rclone and fuse3")
    require(Path("/dev/fuse").exists(), "/dev/fuse")
    served, folder = tmp_path / "server", tmp_path / "share"
    served.mkdir()
    folder.mkdir()
    (served / "hello").touch()
    (tmp_path / "rclone.conf").write_text("[grass]\ntype = local\n")
    given = {
        "name": served,
        "host": "127.0.0.1",
        "port": server.getsockname()[1],
        "folder": folder,
        "credentials": tmp_path / "rclone.conf",
        "cache": tmp_path / "cache",
        "stage": tmp_path / "stage",
        "user": "root",
        "hung": hung,
    }
    options = [word for name, value in given.items() for word in (f"--{name}", str(value))]
    made = Mount(served, folder, [sys.executable, "-m", "node.share_mount", *options])
    try:
        made.start()
        yield made
    finally:
        if made.process is not None:
            made.process.terminate()
            made.process.wait()
        while made.depth():
            detach(str(folder))


@contextmanager
def mount_namespace(propagation: str, script: str) -> Iterator[tuple[str, Path]]:
    """Run a script in a mount namespace of its own until the block ends. Give the line that it prints, and its root."""
    process = subprocess.Popen(
        ["unshare", "--mount", "--propagation", propagation, "sh", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        yield process.stdout.readline().strip(), Path(f"/proc/{process.pid}/root")
    finally:
        process.communicate()


@pytest.fixture
def container(mount: Mount, tmp_path: Path) -> Iterator[Path]:
    """What a process in another mount namespace, which bound the share with the propagation `rslave`, sees of it."""
    inside = tmp_path / "inside"
    inside.mkdir()
    bind = f"mount --bind '{mount.folder}' '{inside}' && mount --make-rslave '{inside}' && echo ready && exec cat"
    with mount_namespace("slave", bind) as (said, root):
        assert said == "ready"
        yield root / inside.relative_to("/")


def test_who_has_the_mount_of_before_sees_the_next_one(mount: Mount, container: Path) -> None:
    assert (container / "hello").exists()
    for _ in range(3):
        mount.rclone().kill()
        assert "mounts it again" in mount.ended()
        wait_until(lambda: dead(container), what="the end of the mount in the container")
        mount.start()
        assert (container / "hello").exists()
        (container / "from-inside").write_text("x")
        wait_until(lambda: (mount.server / "from-inside").exists(), what="the file on the server")
        (mount.server / "from-inside").unlink()


def test_who_has_a_folder_of_the_mount_of_before_gets_that_of_the_next_one_as_it_was(
    mount: Mount, tmp_path: Path
) -> None:
    """As isolated containers have it: no later mount reaches them."""
    (mount.server / "mine").mkdir()
    (mount.server / "theirs").mkdir()
    (mount.server / "theirs" / "file").touch()
    wait_until(lambda: mount.sees("mine") and mount.sees("theirs"), what="folders that the server has just got")
    for name in ("rw", "ro", "own"):
        (tmp_path / name).mkdir()
    bind = (
        f"cd '{tmp_path}' && mount --bind share/mine rw && mount --bind share/theirs ro && mount -o remount,bind,ro ro"
        " && unshare --user --map-root-user --mount sh -c"
        f' "cd {tmp_path} && mount --bind rw own && echo \\$\\$ && exec sleep 600 </dev/null" & read line; kill $!'
    )
    with mount_namespace("private", bind) as (of_a_task, root):
        inner = Path(f"/proc/{of_a_task}/root{tmp_path}")
        outer = root / tmp_path.relative_to("/")
        mount.rclone().kill()
        mount.ended()
        mount.start()
        wait_until(lambda: there(outer / "ro" / "file") and there(outer / "rw"), what="the folder that is only read")
        (outer / "rw" / "from-inside").write_text("x")
        wait_until(lambda: (mount.server / "mine" / "from-inside").exists(), what="the file on the server")
        with pytest.raises(OSError, match="Read-only file system"):
            (outer / "ro" / "file").write_text("x")
        with pytest.raises(OSError, match="not connected"):
            list((inner / "own").iterdir())  # root does nothing in a namespace that a task made


def test_the_end_of_the_service_leaves_the_mount_so_that_the_next_start_reaches_who_has_it(
    mount: Mount, container: Path
) -> None:
    assert mount.process is not None
    mount.process.send_signal(signal.SIGTERM)
    mount.ended()
    assert mount.process.returncode == 0 and mount.depth() == 1
    mount.start()
    assert (container / "hello").exists()


@hangs_soon
def test_a_mount_that_hangs_although_its_server_answers_is_ended(mount: Mount) -> None:
    rclone = mount.rclone()
    rclone.suspend()
    said = mount.ended()
    assert "did not answer for 2 s, although its server does" in said
    assert mount.process is not None and mount.process.returncode == 1
    assert not rclone.is_running()
    wait_until(lambda: dead(mount.folder), what="an error for whoever uses it")


def test_a_mount_whose_rclone_failed_inside_is_ended(mount: Mount, tmp_path: Path) -> None:
    """A stand-in for rclone that mounts as rclone does, and then says what a failed one says."""
    assert mount.process is not None
    mount.process.terminate()
    mount.process.wait()
    real = shutil.which("rclone")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "rclone").write_text(
        f'#!/bin/sh\n"{real}" "$@" &\ntrap "kill $!" TERM\n'
        f'until [ -e "{tmp_path}/fail" ]; do sleep 0.1; done\n'
        'echo "fuse: panic in handler for Release [ID=0x94]: runtime error" >&2\nwait\n'
    )
    (tmp_path / "bin" / "rclone").chmod(0o755)
    mount.start({**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"})
    (tmp_path / "fail").touch()
    assert "rclone failed internally; systemd mounts it again" in mount.ended()
    wait_until(lambda: dead(mount.folder), what="an error for whoever uses it")


@hangs_soon
def test_a_mount_that_waits_for_its_server_is_left_alone_and_has_time_once_it_is_back(
    mount: Mount, server: socket.socket
) -> None:
    address = server.getsockname()
    server.close()
    rclone = mount.rclone()
    rclone.suspend()
    assert mount.process is not None
    with pytest.raises(subprocess.TimeoutExpired):
        mount.process.wait(3 * HUNG)
    with socket.create_server(address), pytest.raises(subprocess.TimeoutExpired):
        mount.process.wait(HUNG / 2)
    rclone.resume()
    assert mount.sees("hello")


def test_a_mount_that_was_killed_with_its_stage_is_made_anew(mount: Mount, container: Path) -> None:
    assert mount.process is not None
    rclone = mount.rclone()
    mount.process.kill()
    rclone.kill()
    mount.ended()
    mount.start()
    assert (container / "hello").exists() and os.listdir(mount.folder) == ["hello"]


def test_containers_are_told_to_take_what_is_mounted_later_and_not_to_change_images_and_logs(mount: Mount) -> None:
    config = NodeHome("lab", "m", "/h", "/r", share=str(mount.folder), node=NodeConfig(name="n1"))
    launch = Launch(["true"], {}, None, 5.0, runtime="docker", image="i:1")
    sealed = [mount.folder / name for name in ("images", "logs")]
    for folder in sealed:
        folder.mkdir()
    body = request(config, Start("job-1/t.0/1", "job-1/t", {}), launch, "/scratch", 4)
    whole, *others = body["HostConfig"]["Mounts"]
    assert [(each["Target"], each["ReadOnly"]) for each in others[:2]] == [(str(folder), True) for folder in sealed]
    assert whole == {
        "Type": "bind",
        "Source": str(mount.folder),
        "Target": str(mount.folder),
        "ReadOnly": False,
        "BindOptions": {"Propagation": "rslave"},
    }
