"""Limits of isolated processes by control groups: memory, processes, cores; and what attackers try."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from grass.model.isolation import UidRange
from grass.model.reasons import ReasonCode
from grass.system import clock
from node.runtime import proc
from node.runtime.frames import pack
from node.runtime.isolation import groups
from node.runtime.process.beside import OfShepherd
from node.runtime.protocol import Observed, Stop
from tests.support import own_group
from tests.support.needs import require, require_root
from tests.support.own_group import of_process as group
from tests.support.processes import alive
from tests.support.shepherd_run import ENV, ShepherdRun
from tests.support.waiting import wait_until

UIDS = UidRange(57_970, 57_971)
MIB = 1 << 20
HOG = "exec python3 -c 'x = bytearray(200 << 20); print(len(x))'"


@pytest.fixture(scope="module")
def shepherd() -> Iterator[ShepherdRun]:
    require_root()
    require(shutil.which("bwrap") is not None, "bubblewrap")
    own_group.require_limits()
    try:
        with ShepherdRun(UIDS) as run:
            run.connect()
            yield run
    finally:
        for entry in pwd.getpwall():
            if UIDS.first <= entry.pw_uid <= UIDS.last:
                subprocess.run(["userdel", entry.pw_name], check=True)


def start(shepherd: ShepherdRun, key: str, script: str, user: str = "ann", cpu: int = 0, memory: int = 0) -> None:
    output = str(shepherd.config.data_dir / "jobs" / key.partition("/")[0])
    command = ["/bin/sh", "-c", f"exec 2>&1; {script}"]
    shepherd.launch(key, command, user=user, cpu=cpu, memory=memory, GRASS_OUTPUT=output)
    shepherd.start(key, key)


def run(shepherd: ShepherdRun, key: str, script: str, user: str = "ann", cpu: int = 0, memory: int = 0) -> Observed:
    start(shepherd, key, script, user, cpu, memory)
    return shepherd.ended(key)


def test_a_task_that_needs_more_memory_than_it_asked_for_is_killed_and_told_so(shepherd: ShepherdRun) -> None:
    ended = run(shepherd, "hog/a.0/1", HOG, memory=64 * MIB)
    assert (ended.code, ended.signal) == (None, signal.SIGKILL)
    assert ended.reason is not None and ended.reason.code is ReasonCode.SIGNAL
    assert ended.reason.message == "killed by the kernel: it used more memory than its limit of 64MiB"
    child = run(shepherd, "hog/a.1/1", "python3 -c 'x = bytearray(200 << 20)'; exit 3", memory=64 * MIB)
    assert child.code == 3 and child.reason is not None and child.reason.code is ReasonCode.EXIT_CODE
    assert "exit code 3, after the kernel killed a process of it" in child.reason.message
    assert run(shepherd, "hog/a.2/1", HOG).code == 0  # it asked for no memory
    assert run(shepherd, "hog/a.3/1", HOG, memory=512 * MIB).code == 0
    assert run(shepherd, "hog/a.4/1", "kill -KILL $$", memory=64 * MIB).reason is None


def test_a_launch_that_is_defined_again_keeps_its_limits_until_it_gets_new_ones(shepherd: ShepherdRun) -> None:
    name, command = "again/a", ["/bin/sh", "-c", HOG]
    shepherd.launch(name, command, user="ann", memory=64 * MIB)
    shepherd.start(name, "again/a.0/1")
    assert shepherd.ended("again/a.0/1").signal == signal.SIGKILL
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:  # as the first half of what a node-agent sends
        client.connect(str(shepherd.config.socket("shepherd")))
        client.sendall(pack(["launch", name, command, ENV, None, 1.0, None, "ann", []]) + pack(["ping"]))
        assert client.recv(100) == pack(["pong"])
    shepherd.start(name, "again/a.1/1")
    assert shepherd.ended("again/a.1/1").signal == signal.SIGKILL


def test_the_memory_of_a_job_is_counted_for_each_attempt_with_what_left_its_session(shepherd: ShepherdRun) -> None:
    script = "setsid env -i /usr/bin/python3 -c 'x = bytearray(200 << 20)'; exit 7"
    ended = run(shepherd, "session/a.0/1", script, memory=64 * MIB)
    assert ended.code == 7 and ended.reason is not None and "its limit of 64MiB" in ended.reason.message


def counted(folder: Path, name: str) -> str:
    """Return a file of a control group; empty: its task has ended, and the group is gone or goes at this moment."""
    with suppress(OSError):
        return (folder / name).read_text()
    return ""


def test_cores_are_shared_by_what_tasks_asked_for(shepherd: ShepherdRun) -> None:
    for index, cpu in enumerate((500, 2000, 0)):
        start(shepherd, f"cores/a.{index}/1", "exec sleep 60", cpu=cpu)
    folders = [group(shepherd.started(f"cores/a.{index}/1").pid) for index in range(3)]
    shares = [int((each["cpu"] / own_group.CPU_SHARE).read_text()) for each in folders]
    assert shares == ([50, 200, 100] if own_group.UNIFIED else [512, 2048, 1024])
    assert {int((each["pids"] / "pids.max").read_text()) for each in folders} == {groups.MOST_PROCESSES}
    machine = int(Path("/proc/meminfo").read_text().split()[1]) << 10
    limit = int((folders[0]["memory"] / own_group.MEMORY_LIMIT).read_text())
    assert 0.9 * machine < limit < machine
    shepherd.runtime.stop([Stop(f"cores/a.{index}/1", 1.0) for index in range(3)])
    for index in range(3):
        shepherd.ended(f"cores/a.{index}/1")
    wait_until(lambda: not [path for each in folders for path in each.values() if path.exists()], 10, "their removal")


def test_a_fork_bomb_ends_with_its_task_and_others_start_meanwhile(shepherd: ShepherdRun) -> None:
    bomb = "until [ -e $HOME/go ]; do sleep 0.05; done; trap '' TERM; b() { b & b & wait; }; b"
    start(shepherd, "bomb/a.0/1", bomb)
    folder = group(shepherd.started("bomb/a.0/1").pid)["pids"]
    (folder / "pids.max").write_text("200")  # thousands would slow down the whole machine
    (shepherd.path("bomb/a.0/1", "scratch") / "go").touch()
    wait_until(lambda: "max 0" not in counted(folder, "pids.events"), 15, "the limit")
    assert int(counted(folder, "pids.current") or 0) <= 200
    assert run(shepherd, "beside/a.0/1", "echo fine", "ben").code == 0
    assert run(shepherd, "beside/a.1/1", "sh -c 'exit 4'", "ann").code == 4  # of the same user
    shepherd.runtime.stop([Stop("bomb/a.0/1", 0.2)])
    shepherd.ended("bomb/a.0/1")  # by KILL, or by itself: a shell that cannot fork gives up
    wait_until(lambda: not folder.exists(), 10, "the end of all its processes")


def test_a_fork_bomb_that_never_gives_up_is_killed_and_told_so(shepherd: ShepherdRun) -> None:
    forks = "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass"
    start(shepherd, "forks/a.0/1", f"until [ -e $HOME/go ]; do sleep 0.05; done; exec python3 -ISc '{forks}'")
    folder = group(shepherd.started("forks/a.0/1").pid)["pids"]
    (folder / "pids.max").write_text("100")
    (shepherd.path("forks/a.0/1", "scratch") / "go").touch()
    ended = shepherd.ended("forks/a.0/1")
    assert ended.signal == signal.SIGKILL and ended.reason is not None and ended.reason.code is ReasonCode.SIGNAL
    assert "reached its limit of 8,192 processes, and went on trying to start more" in ended.reason.message
    wait_until(lambda: not folder.exists(), 10, "the end of all its processes")
    assert run(shepherd, "beside/a.2/1", "echo fine", "ben").code == 0


def test_a_task_that_meets_its_limit_of_processes_now_and_then_goes_on(shepherd: ShepherdRun) -> None:
    tries = "import os\nfor _ in range(500):\n  try: os.fork() or os._exit(0)\n  except OSError: pass"
    script = f"until [ -e $HOME/go ]; do sleep 0.05; done; python3 -ISc '{tries}'; sleep 2; exit 6"
    start(shepherd, "few/a.0/1", script)
    folder = group(shepherd.started("few/a.0/1").pid)["pids"]
    (folder / "pids.max").write_text("4")
    (shepherd.path("few/a.0/1", "scratch") / "go").touch()
    assert shepherd.ended("few/a.0/1").code == 6


def test_what_hides_from_its_session_ends_with_its_task(shepherd: ShepherdRun) -> None:
    script = "setsid env -i sh -c 'trap \"\" TERM; sleep 71.5 & wait' & until [ -e $HOME/go ]; do sleep 0.05; done"
    start(shepherd, "hide/a.0/1", script)
    folder = group(shepherd.started("hide/a.0/1").pid)["pids"]
    wait_until(lambda: hidden() != [], 10, "what hides")
    (shepherd.path("hide/a.0/1", "scratch") / "go").touch()
    assert shepherd.ended("hide/a.0/1").code == 0
    wait_until(lambda: not folder.exists(), 10, "the end of its group")
    assert hidden() == []


def hidden() -> list[int]:
    return [pid for pid in proc.processes() if proc.read(f"/proc/{pid}/cmdline") == b"sleep\x0071.5\0"]


def test_a_task_cannot_lift_its_limits_or_leave_its_group(shepherd: ShepherdRun) -> None:
    victim = "exec sleep 60"
    start(shepherd, "victim/a.0/1", victim, "ben")
    theirs = group(shepherd.started("victim/a.0/1").pid)
    memory, kind = ("", "cgroup2") if own_group.UNIFIED else ("/memory", "cgroup -o memory")
    own = (
        "$(sed -n s/.*:://p /proc/self/cgroup)" if own_group.UNIFIED else "$(sed -n s/.*:memory://p /proc/self/cgroup)"
    )
    tries = {
        "lift": f"echo 9999999999 > /sys/fs/cgroup{memory}{own}/{own_group.MEMORY_LIMIT}",
        "leave": f"echo $$ > /sys/fs/cgroup{memory}/cgroup.procs",
        "leave in a namespace": f"unshare -UrmC sh -c 'echo $$ > /sys/fs/cgroup{memory}/cgroup.procs'",
        "make": f"mkdir /sys/fs/cgroup{memory}{own}/own",
        "enter": f"echo $$ > {theirs['memory']}/cgroup.procs",
        "limit another": f"echo 0 > {theirs['pids']}/pids.max",
        "freeze": f"echo 1 > {theirs['memory']}/cgroup.freeze || mkdir /sys/fs/cgroup/freezer/x",
        "mount": f"unshare -UrmC sh -c 'mount -t {kind} none /mnt && echo $$ > /mnt/cgroup.procs'",
    }
    script = "; ".join(f"( {attack} ) >/dev/null 2>&1 && echo '{name}'" for name, attack in tries.items())
    ended = run(shepherd, "evil/a.0/1", f"{script}; {HOG}", memory=64 * MIB)
    assert shepherd.stdout("evil/a.0/1") == "" and ended.signal == signal.SIGKILL
    assert alive(shepherd.known["victim/a.0/1"].pid or 0)
    shepherd.runtime.stop([Stop("victim/a.0/1", 1.0)])
    shepherd.ended("victim/a.0/1")


def test_a_command_beside_a_task_has_the_limits_of_the_task(shepherd: ShepherdRun, tmp_path: Path) -> None:
    start(shepherd, "exec/a.0/1", "exec sleep 60", memory=64 * MIB)
    shepherd.started("exec/a.0/1")
    with open("/dev/null", "r+b") as null:
        path = shepherd.config.socket("shepherd")
        command = OfShepherd(path, "exec/a.0/1", ["/bin/sh", "-c", HOG], {}, [null.fileno()] * 3, False)
    assert command.code() == -signal.SIGKILL
    command.close()
    shepherd.runtime.stop([Stop("exec/a.0/1", 1.0)])
    assert shepherd.ended("exec/a.0/1").reason is None  # it was stopped, whatever else happened in its group


def test_an_attempt_that_ended_before_it_had_a_group_changes_no_limits_of_all(shepherd: ShepherdRun) -> None:
    """As a shepherd leaves it that is killed in the moment of a start: in the journal, without its group."""
    mine = shepherd.shepherd_pid()
    own = group(mine)["memory"]
    limit = (own.parent if own_group.UNIFIED else own) / own_group.MEMORY_LIMIT
    before = limit.read_text()
    shepherd.kill_guard()
    os.kill(mine, signal.SIGKILL)
    ended = subprocess.Popen(["true"])
    ended.wait()
    now = clock.steady()
    line = json.dumps(["s", "early/a.0/1", ended.pid, now, now, clock.wall(), ""], separators=(",", ":"))
    with (shepherd.config.node_dir / "shepherd.journal").open("a") as journal:
        journal.write(f"{line}\n")
    shepherd.start_daemon()
    shepherd.relist()
    assert shepherd.ended("early/a.0/1").code is None
    assert limit.read_text() == before


def test_the_next_shepherd_knows_the_limits_and_removes_what_the_last_one_prepared(shepherd: ShepherdRun) -> None:
    start(shepherd, "next/a.0/1", f"until [ -e $HOME/go ]; do sleep 0.05; done; {HOG}", memory=64 * MIB)
    own = group(shepherd.started("next/a.0/1").pid)

    def in_advance() -> set[str]:
        """Return the groups of this shepherd's starters. Those of shepherds of other tests may be beside them."""
        starters = proc.children(shepherd.shepherd_pid())
        found = {path.name for starter in starters for path in own["memory"].parent.glob(f"{starter}-*")}
        return found - {own["memory"].name}

    wait_until(in_advance, 10, "the group of the next starter")
    before = in_advance()
    shepherd.kill_shepherd()
    shepherd.relist()
    (shepherd.path("next/a.0/1", "scratch") / "go").touch()
    ended = shepherd.ended("next/a.0/1")
    assert ended.reason is not None and "its limit of 64MiB" in ended.reason.message
    start(shepherd, "next/a.1/1", "exec sleep 60")  # while a task runs, there is housekeeping
    wait_until(lambda: not [name for name in before if (own["memory"].parent / name).exists()], 10, "the sweep")
    shepherd.runtime.stop([Stop("next/a.1/1", 1.0)])
    shepherd.ended("next/a.1/1")
