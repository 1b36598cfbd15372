"""What tasks of isolated users reach of each other and of the machine through the kernel: every kind of its objects."""

from __future__ import annotations

import json
import os
import pwd
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grass.model.isolation import UidRange
from node.runtime import proc
from node.runtime.isolation.visible_files import QUEUES, folders_of
from node.runtime.process.beside import OfShepherd
from node.runtime.protocol import Stop
from tests.support import kernel_objects, mpi_rank, own_group, python_image
from tests.support.docker_run import DockerRun
from tests.support.kernel_objects import KEY, NAME
from tests.support.needs import require, require_root
from tests.support.shepherd_run import ShepherdRun
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(120)

UIDS = UidRange(57_965, 57_967)
MIB = 1 << 20
PROGRAM = Path(kernel_objects.__file__).read_text()
OF_MACHINE = {"abstract socket"}
"""What the kernel separates by networks only, and tasks use that of the machine."""


@pytest.fixture(scope="module")
def shepherd() -> Iterator[ShepherdRun]:
    """Its session keyring, which it has from this process, holds a key."""
    require_root()
    require(shutil.which("bwrap") is not None, "bubblewrap")
    plant_key()
    try:
        with ShepherdRun(UIDS) as run:
            run.connect()
            yield run
    finally:
        for entry in pwd.getpwall():
            if UIDS.first <= entry.pw_uid <= UIDS.last:
                subprocess.run(["userdel", entry.pw_name], check=True)


@pytest.fixture(scope="module")
def containers(shepherd: ShepherdRun) -> Iterator[DockerRun]:
    """The docker runtime of the same node."""
    python_image.provide_image()
    with DockerRun(config=shepherd.config) as run:
        yield run


def plant_key() -> None:
    calls = kernel_objects.REFUSED
    try:
        kernel_objects.call(calls["keyctl"], kernel_objects.JOIN, None)
        kernel_objects.call(calls["add_key"], b"user", NAME.encode(), b"x", 1, kernel_objects.SESSION)
    except kernel_objects.Refused as error:
        require(False, "keys of the kernel", os.strerror(error.args[0]))
    assert f" user      {NAME}: 1" in Path("/proc/keys").read_text()


def start(shepherd: ShepherdRun, key: str, *words: str, user: str = "ann", memory: int = 0) -> None:
    """Start the program of the attacks, or a script of a shell."""
    command = ["/bin/sh", "-c", words[0]] if len(words) == 1 else ["/usr/bin/python3", "-c", PROGRAM, *words[1:]]
    output = str(shepherd.config.data_dir / "jobs" / key.partition("/")[0])
    shepherd.launch(key, command, user=user, memory=memory, GRASS_OUTPUT=output)
    shepherd.start(key, key)


def run(shepherd: ShepherdRun, key: str, *words: str, user: str = "ann", memory: int = 0) -> str:
    start(shepherd, key, *words, user=user, memory=memory)
    ended = shepherd.ended(key)
    assert ended.code == 0, (ended, shepherd.path(key, "stderr").read_text())
    return shepherd.stdout(key)


def stop(shepherd: ShepherdRun, *keys: str) -> None:
    shepherd.runtime.stop([Stop(key, 0.0) for key in keys])
    for key in keys:
        shepherd.ended(key)


def said(shepherd: ShepherdRun, key: str) -> Any:
    """Return the first value that a running task prints."""
    shepherd.started(key)
    wait_until(lambda: "\n" in shepherd.stdout(key), 20, "what the task prints")
    return json.loads(shepherd.stdout(key).splitlines()[0])


def in_container(run: DockerRun, key: str, *words: str, user: str) -> None:
    output = run.config.data_dir / "jobs" / key.partition("/")[0]
    for folder in (output, *map(Path, folders_of(str(run.config.data_dir), user))):
        folder.mkdir(parents=True, exist_ok=True)
        shutil.chown(folder, "nobody", "nogroup")
        folder.chmod(0o775)
    command = ["/usr/bin/python3", "-c", PROGRAM, *words]
    run.start(command, key, user=user, image=python_image.IMAGE, env={"GRASS_OUTPUT": str(output)})


def attacked(shepherd: ShepherdRun, containers: DockerRun, planted: dict[str, Any], when: str, group: str) -> None:
    """Attack what a task planted, as another user: as a process and in a container, while it runs and afterwards."""
    expected = OF_MACHINE if when.endswith("during") else set()
    words = ("attack", json.dumps(planted), group)
    done = json.loads(run(shepherd, f"evil-{when}/a.0/1", "", *words, user="Mallory"))
    assert set(done) == expected, f"a process, {when}"
    in_container(containers, f"evil-{when}/b.0/1", *words, user="Mallory")
    assert containers.ended(f"evil-{when}/b.0/1").code == 0
    assert set(json.loads(containers.stdout(f"evil-{when}/b.0/1"))) == expected, f"a container, {when}"


def test_an_attacker_reaches_no_kernel_object_of_another_users_process(
    shepherd: ShepherdRun, containers: DockerRun
) -> None:
    start(shepherd, "prey/a.0/1", "", "plant")
    planted = said(shepherd, "prey/a.0/1")
    groups = own_group.of_process(planted["pid"])
    attacked(shepherd, containers, planted, "process-during", str(groups["memory"]))
    assert proc.stat(planted["pid"]) is not None
    stop(shepherd, "prey/a.0/1")
    attacked(shepherd, containers, {**planted, "pid": 0}, "process-after", str(groups["memory"].parent))
    assert not of_machine()


def of_machine() -> list[str]:
    """Return what was planted and is visible to everybody on the machine."""
    segments = [line.split()[0] for line in Path("/proc/sysvipc/shm").read_text().splitlines()]
    return [*(each for each in segments if each == str(KEY)), *(str(path) for path in Path("/dev/shm").glob(NAME))]


def test_tasks_of_a_job_share_what_is_in_memory_and_tasks_of_another_job_of_the_user_do_not(
    shepherd: ShepherdRun,
) -> None:
    """The first shows that the attacks work, too."""
    start(shepherd, "ranks/a.0/1", "", "plant")
    planted = said(shepherd, "ranks/a.0/1")
    words = ("attack", json.dumps(planted), "/sys/fs/cgroup")
    mine = set(json.loads(run(shepherd, "ranks/a.1/1", "", *words)))
    of_user = {"signal", "process", "signal by descriptor", "trace", "memory", "limits", "cores", "nice", "priority"}
    of_user |= {f"/proc/PID/{name}" for name in ("mem", "environ", "maps", "cmdline", "fd", "root", "ns/ipc", "status")}
    in_memory = {"shared memory of System V", "shared memory of POSIX"}
    in_memory |= {"its number", "its removal", "semaphores", "the number of semaphores", "message queues", "a message"}
    in_memory |= {"message queues of POSIX", "lists"} | ({"their file"} if Path(QUEUES).is_dir() else set())
    assert mine >= OF_MACHINE | of_user | in_memory
    other = set(json.loads(run(shepherd, "other/a.0/1", "", *words)))
    assert other >= OF_MACHINE | of_user and not other & in_memory
    stop(shepherd, "ranks/a.0/1")


def test_a_user_who_uses_up_what_the_kernel_grants_takes_nothing_from_another(shepherd: ShepherdRun) -> None:
    start(shepherd, "greedy/a.0/1", "", "exhaust", user="Mallory")
    assert said(shepherd, "greedy/a.0/1") > 0
    watch = "import ctypes; print(ctypes.CDLL(None).inotify_init1(0) >= 0)"
    script = f"/usr/bin/python3 -c {shlex.quote(watch)}; ipcmk -M 4096 -S 1 -Q"
    assert run(shepherd, "modest/a.0/1", script).split()[0] == "True"
    stop(shepherd, "greedy/a.0/1")


def test_system_calls_that_reach_the_whole_machine_are_refused_also_beside_a_task(shepherd: ShepherdRun) -> None:
    assert json.loads(run(shepherd, "calls/a.0/1", "", "refused")) == {}
    start(shepherd, "calls/b.0/1", "readlink /proc/self/ns/ipc; exec sleep 60")
    shepherd.started("calls/b.0/1")
    wait_until(lambda: "ipc" in shepherd.stdout("calls/b.0/1"), 10, "its namespace")
    beside = ["/usr/bin/python3", "-c", PROGRAM, "refused"]
    assert json.loads(output_beside(shepherd, "calls/b.0/1", beside)) == {}
    assert output_beside(shepherd, "calls/b.0/1", ["readlink", "/proc/self/ns/ipc"]) == shepherd.stdout("calls/b.0/1")
    assert NAME not in output_beside(shepherd, "calls/b.0/1", ["cat", "/proc/keys"])
    stop(shepherd, "calls/b.0/1")


def output_beside(shepherd: ShepherdRun, key: str, argv: list[str]) -> str:
    reader, writer = os.pipe()
    null = os.open(os.devnull, os.O_RDWR)
    command = OfShepherd(shepherd.config.socket("shepherd"), key, argv, {}, [null, writer, null], False)
    os.close(null)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        printed = pipe.read()
    assert command.code() == 0
    command.close()
    return printed


def namespaces_kept(shepherd: ShepherdRun) -> set[str]:
    folder = Path(f"/proc/{shepherd.shepherd_pid()}/fd")
    links = (os.readlink(path) for path in folder.iterdir() if path.is_symlink())
    return {link for link in links if link.startswith("ipc:")}


def test_what_a_job_leaves_in_memory_goes_with_its_last_task_on_the_node(shepherd: ShepherdRun) -> None:
    leave = "readlink /proc/self/ns/ipc; ipcmk -M 1000000 -S 1 -Q >/dev/null; head -c 1000000 /dev/zero >/dev/shm/x"
    [namespace] = run(shepherd, "leaves/a.0/1", leave).split()
    wait_until(lambda: namespace not in namespaces_kept(shepherd), 10, "the end of the namespace")
    look = "readlink /proc/self/ns/ipc; cat /proc/sysvipc/* | grep -vc key; ls -A /dev/shm"
    assert run(shepherd, "leaves/a.1/1", f"{look}; true").split()[1:] == ["0"]
    [kept, _] = run(shepherd, "leaves/a.2/1", f"{look}; true").split()
    assert kept in namespaces_kept(shepherd), "nothing was left, so the next task starts as quickly"


def test_a_segment_goes_with_the_attempt_that_made_it_while_others_of_its_job_run(shepherd: ShepherdRun) -> None:
    start(shepherd, "mixed/a.0/1", "", "plant")
    planted = said(shepherd, "mixed/a.0/1")
    made = "import ctypes; print(ctypes.CDLL(None).shmget(0x77, 4096, 0o1666))"
    script = f"exec /usr/bin/python3 -c {shlex.quote(made)}"
    number = run(shepherd, "mixed/b.0/1", script).strip()
    left = run(shepherd, "mixed/c.0/1", "grep -v key /proc/sysvipc/shm").split("\n")
    assert [line.split()[1] for line in left if line] == [str(planted["segment"])] != [number]
    stop(shepherd, "mixed/a.0/1")


def test_shared_memory_of_a_job_is_limited_as_the_memory_of_its_attempts_is(shepherd: ShepherdRun) -> None:
    own_group.require_limits()
    tries = [str(48 * MIB), str(96 * MIB)]
    found = [json.loads(run(shepherd, f"size/a.{size}/1", "", "limits", size, memory=64 * MIB)) for size in tries]
    assert found == [[True, True], [False, False]]
    start(shepherd, "size/b.0/1", "exec sleep 60", memory=64 * MIB)
    shepherd.started("size/b.0/1")
    look = "cat /proc/sys/kernel/shmall; df --output=size /dev/shm | tail -1; cat /proc/sys/kernel/msgmni"
    pages, blocks, queues = map(int, run(shepherd, "size/b.1/1", look, memory=64 * MIB).split())
    assert (pages * os.sysconf("SC_PAGE_SIZE"), blocks << 10, queues) == (128 * MIB, 128 * MIB, 1024)
    pages = int(run(shepherd, "size/b.2/1", look).split()[0])
    assert pages * os.sysconf("SC_PAGE_SIZE") > 1024 * MIB, "one that asks for no memory may use nearly all"
    stop(shepherd, "size/b.0/1")


@pytest.mark.parametrize("library", ["mpich", pytest.param("openmpi", marks=pytest.mark.nightly)])
def test_ranks_of_an_mpi_program_use_shared_memory_in_a_task(shepherd: ShepherdRun, library: str) -> None:
    launcher = f"mpirun.{library}"
    require(shutil.which(launcher) is not None, library)
    options = "--oversubscribe --mca btl self,vader " if library == "openmpi" else ""
    program = f"/usr/bin/python3 -c {shlex.quote(Path(mpi_rank.__file__).read_text())} {library}"
    printed = run(shepherd, f"{library}/a.0/1", f"{launcher} {options}-np 3 {program}")
    assert sorted(line.partition(",")[0] for line in printed.splitlines()) == [
        f"rank {rank} of 3: 3 here" for rank in range(3)
    ]


def test_the_next_shepherd_lets_tasks_of_a_job_share_memory_with_those_that_run(shepherd: ShepherdRun) -> None:
    start(shepherd, "next/a.0/1", "", "plant")
    planted = said(shepherd, "next/a.0/1")
    shepherd.kill_shepherd()
    shepherd.relist()
    look = "readlink /proc/self/ns/ipc; grep -c . /proc/sysvipc/shm"
    assert run(shepherd, "next/a.1/1", look).split() == [os.readlink(f"/proc/{planted['pid']}/ns/ipc"), "2"]
    stop(shepherd, "next/a.0/1")
    wait_until(lambda: not of_machine(), 10, "the end of its memory")
    assert run(shepherd, "next/a.2/1", f"{look}; true").split()[1:] == ["1"]


def test_an_attacker_reaches_no_kernel_object_of_another_users_container(
    shepherd: ShepherdRun, containers: DockerRun
) -> None:
    in_container(containers, "boxed/a.0/1", "plant", user="ann")
    containers.wait(lambda: "\n" in containers.stdout("boxed/a.0/1"))
    planted = json.loads(containers.stdout("boxed/a.0/1"))
    pid = containers.runs("boxed/a.0/1").pid
    attacked(shepherd, containers, {**planted, "pid": pid}, "container-during", "/sys/fs/cgroup")
    containers.runtime.stop([Stop("boxed/a.0/1", 0.0)])
    containers.ended("boxed/a.0/1")
    attacked(shepherd, containers, {**planted, "pid": 0}, "container-after", "/sys/fs/cgroup")
    assert not of_machine()
