"""What the machine uses, over folders like those of sysfs and of control groups."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace

from node.agent import container_usage
from node.agent.machine_usage import MachineUsage
from node.agent.shared_pages import SharedPages
from node.agent.task_processes import TaskProcesses, Used
from node.runtime import control_groups
from tests.support.waiting import wait_until

NOBODY = 65534


def write(path: Path, text: str | int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


RANGE = 262_143_328_850
"""Microjoules after which the counter of a package begins again, on most Intel processors."""


class Powercap:
    """The zones of a machine, as the kernel lays them out: ``class/powercap`` has links into ``devices/virtual``.

    Two packages with their cores and memory, and the whole platform, which contains them (``psys``).
    """

    def __init__(self, sys: Path) -> None:
        self.classes, self._control = sys / "class/powercap", sys / "devices/virtual/powercap/intel-rapl"
        self.classes.mkdir(parents=True)
        write(self._control / "enabled", 1)
        (self.classes / "intel-rapl").symlink_to(self._control)
        for zone, name in ((0, "package-0"), (1, "package-1"), (2, "psys")):
            self._zone(f"intel-rapl:{zone}", self._control, name)
        for zone in (0, 1):
            for part, name in enumerate(("core", "dram")):
                self._zone(f"intel-rapl:{zone}:{part}", self._control / f"intel-rapl:{zone}", name)

    def _zone(self, zone: str, above: Path, name: str) -> None:
        folder = above / zone
        write(folder / "name", name)
        write(folder / "enabled", 1)
        write(folder / "max_energy_range_uj", RANGE)
        write(folder / "constraint_0_power_limit_uw", 125_000_000)
        write(folder / "energy_uj", 7)
        (self.classes / zone).symlink_to(folder)

    def count(self, *microjoules: int) -> None:
        """Let the packages, and then the platform, have used so much."""
        for zone, count in enumerate(microjoules):
            write(self.classes / f"intel-rapl:{zone}" / "energy_uj", count)


def test_only_cpu_packages_count_and_each_passes_its_range(tmp_path: Path) -> None:
    powercap, clock = Powercap(tmp_path), Clock()
    powercap.count(RANGE - 10_000_000, 50_000_000, 1)
    machine = MachineUsage(tmp_path, tmp_path, clock)
    powercap.count(20_000_000, 60_000_000, 900_000_000)
    clock.now += 2.0
    sample, interval = machine.sample()
    assert interval.energy == pytest.approx(30 + 10) and sample.power == 20.0


def test_dies_of_one_package_are_added(tmp_path: Path) -> None:
    powercap = Powercap(tmp_path)
    for die in (0, 1):
        write(powercap.classes / f"intel-rapl:{die}" / "name", f"package-0-die-{die}")
    machine = MachineUsage(tmp_path, tmp_path)
    powercap.count(1_000_007, 2_000_007)
    assert machine.sample()[1].energy == pytest.approx(3)


def test_energy_is_unknown_while_a_package_does_not_tell_it(tmp_path: Path) -> None:
    powercap = Powercap(tmp_path)
    machine = MachineUsage(tmp_path, tmp_path)
    for damaged in ("", "garbage", None):
        powercap.count(1_000_000, 1_000_000)
        machine.sample()
        file = powercap.classes / "intel-rapl:1" / "energy_uj"
        file.unlink() if damaged is None else file.write_text(damaged)
        assert machine.sample()[1].energy is None
    powercap.count(2_000_000, 3_000_000)
    assert machine.sample()[1].energy is None
    powercap.count(3_000_000, 3_500_000)
    assert machine.sample()[1].energy == pytest.approx(1.5)


def test_energy_is_unknown_when_a_counter_began_again_and_its_range_is_not_known(tmp_path: Path) -> None:
    powercap = Powercap(tmp_path)
    (powercap.classes / "intel-rapl:1" / "max_energy_range_uj").unlink()
    powercap.count(1_000_000, 9_000_000)
    machine = MachineUsage(tmp_path, tmp_path)
    powercap.count(11_000_000, 2_000_000)
    assert machine.sample()[1].energy is None
    powercap.count(12_000_000, 3_000_000)
    assert machine.sample()[1].energy == pytest.approx(2)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_counters_that_only_root_may_read_are_no_energy_for_others() -> None:
    """Since Linux 5.10, ``energy_uj`` has mode 0400."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        powercap = Powercap(folder)
        for zone in powercap.classes.glob("intel-rapl:*"):
            (zone / "energy_uj").chmod(0o400)
        folder.chmod(0o755)
        assert MachineUsage(folder, folder).sample()[1].energy == 0
        os.setresuid(0, NOBODY, NOBODY)
        try:
            sample, interval = MachineUsage(folder, folder).sample()
        finally:
            os.setresuid(0, 0, 0)
        assert interval.energy is None and sample.power is None and sample.memory > 0


def test_rdma_ports_count_in_words(tmp_path: Path) -> None:
    counters, clock = tmp_path / "class/infiniband/mlx5_0/ports/1/counters", Clock()

    def state(sent: int, received: int) -> None:
        write(counters / "port_xmit_data", sent)
        write(counters / "port_rcv_data", received)

    state(1000, 0)
    machine = MachineUsage(tmp_path, tmp_path, clock)
    state(2000, 500)
    clock.now += 2.0
    sample, interval = machine.sample()
    assert [(port.port, port.sent, port.received) for port in sample.rdma] == [("mlx5_0/1", 2000, 1000)]
    assert interval.seconds == 2.0


def test_a_machine_that_does_not_tell_its_energy(tmp_path: Path) -> None:
    sample, interval = MachineUsage(tmp_path, tmp_path).sample()
    assert interval.energy is None and sample.power is None and sample.rdma == ()
    assert 0 <= sample.cpu <= 100 and len(sample.cores) == os.cpu_count()
    assert 0 < sample.memory < sample.memory_total and 0 < sample.disk_used < sample.disk_total


SCOPE = "/system.slice/docker-4f1d.scope"
VERSION_2 = {
    "cgroup.controllers": "cpuset cpu io memory hugetlb pids rdma misc",
    "cpu.stat": "usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\nnr_periods 0\nnr_throttled 0",
    "memory.current": "524288000",
    "memory.max": "max",
    "memory.stat": "anon 400000000\nfile 124288000\ninactive_anon 0\nactive_file 1000\ninactive_file 100000000",
    "io.stat": (
        "8:16 rbytes=1459200 wbytes=314773504 rios=192 wios=353 dbytes=0 dios=0\n"
        "7:1 7:0 253:0 rbytes=90430464 wbytes=299008000 rios=8950 wios=1252 dbytes=50331648 dios=3021\n"
        "254:0"
    ),
    "pids.current": "4",
    "pids.max": "max",
}
"""Files of a control group as the kernel's documentation shows them. Some kernels name devices without figures."""


def version_2(groups: Path) -> dict[str, str]:
    """Make the group of a container. Return controller → folder, as the content of /proc/PID/cgroup tells it."""
    for name, text in VERSION_2.items():
        write(groups / SCOPE[1:] / name, text)
    return control_groups.folders(f"0::{SCOPE}\n", str(groups))


def test_the_control_groups_of_a_container_in_version_2(tmp_path: Path) -> None:
    found = version_2(tmp_path)
    assert found == {"": f"{tmp_path}{SCOPE}"}
    used = container_usage.measure(found, Used(files=3))
    assert used == Used(2.5, 424288000, 4, 3, 1459200 + 90430464, 314773504 + 299008000)


def test_a_controller_that_a_container_lacks_leaves_what_its_processes_told(tmp_path: Path) -> None:
    """Engines without root often may use only ``memory`` and ``pids``."""
    found, told = version_2(tmp_path), Used(9.0, 5, 1, 2, 30, 40)
    folder = Path(found[""])
    for missing, expected in (
        ("io.stat", replace(told, cpu=9.0, memory=424288000, threads=4)),
        ("pids.current", replace(told, memory=424288000)),
        ("memory.current", told),
    ):
        (folder / missing).unlink()
        assert container_usage.measure(found, told) == expected, missing
    write(folder / "cpu.stat", "usage_usec 9500000\nuser_usec damaged\nsystem_usec")
    assert container_usage.measure(found, told) == replace(told, cpu=9.5)
    for damaged in ("", "max", "-1"):
        write(folder / "memory.current", damaged)
        assert container_usage.measure(found, told) == replace(told, cpu=9.5)


def test_a_machine_with_both_versions_counts_by_the_first(tmp_path: Path) -> None:
    found = control_groups.folders("4:memory:/d/c\n1:name=systemd:/d/c\n0::/d/c\n", str(tmp_path))
    write(Path(found["memory"]) / "memory.usage_in_bytes", 900)
    assert container_usage.measure(found, Used(1.0, 1)) == Used(1.0, 900)


def test_the_control_groups_of_a_container_in_version_1(tmp_path: Path) -> None:
    text = "9:blkio:/d/c\n6:cpu,cpuacct:/d/c\n4:memory:/d/c\n3:pids:/d/c\n1:name=systemd:/d/c\n0::/d/c\n"
    groups = control_groups.folders(text, str(tmp_path))
    write(Path(groups["cpuacct"]) / "cpuacct.usage", 1_500_000_000)
    write(Path(groups["memory"]) / "memory.usage_in_bytes", 900)
    write(Path(groups["memory"]) / "memory.stat", "total_inactive_file 100")
    write(Path(groups["blkio"]) / "blkio.throttle.io_service_bytes", "8:0 Read 7\n8:0 Write 9\nTotal 16")
    assert container_usage.measure(groups, Used(threads=2)) == Used(1.5, 800, 2, None, 7, 9)


def test_control_groups_that_are_gone_leave_what_is_known() -> None:
    assert container_usage.measure({"": "/nonexistent"}, Used(2.0, 5, 1, 2, 3, 4)) == Used(2.0, 5, 1, 2, 3, 4)


_CHILD = """
import subprocess, sys
held = bytearray(40 << 20)
child = subprocess.Popen([sys.executable, "-c", "b = bytearray(30 << 20); print('up', flush=True); input()"],
                         start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()
with open(sys.argv[1], "wb") as file:
    file.write(bytes(8 << 20))
print("up", flush=True)
input()
child.communicate(b"\\n")
until = sum(i for i in range(3_000_000))
print("waited", flush=True)
input()
"""


def test_the_processes_of_an_attempt_count_also_in_other_sessions(tmp_path: Path) -> None:
    scans = TaskProcesses()
    argv = [sys.executable, "-c", _CHILD, str(tmp_path / "file")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as task:
        assert task.stdin and task.stdout and task.stdout.readline() == b"up\n"
        before = scans.scan({"t": task.pid})["t"]
        assert sorted(scans.owners.values()) == ["t", "t"] and before.threads == 2
        assert 70 << 20 < before.memory < 120 << 20
        assert before.files is not None and before.files >= 6
        assert (8 << 20) <= before.written < (9 << 20) or before.written == 0  # on a file system in memory
        cpu = before.cpu
        task.stdin.write(b"\n")
        task.stdin.flush()
        assert task.stdout.readline() == b"waited\n"
        after = scans.scan({"t": task.pid})["t"]
        assert list(scans.owners) == [task.pid] and after.cpu > cpu
        task.communicate(b"\n")
    assert scans.scan({}) == {}


@contextmanager
def running_task(argv: list[str], env: dict[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """The first process of an attempt. What it forked ends with its standard input."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(argv, env=env, start_new_session=True, **pipes) as task:
        try:
            yield task
        finally:
            task.kill()


_BURN = "import time\nwhile time.process_time() < 0.4: pass\nprint('burnt', flush=True); input()"


@pytest.mark.parametrize("escape", ["", "setsid "])
def test_an_orphan_counts_though_no_scan_has_seen_its_parent(escape: str, tmp_path: Path) -> None:
    scans = TaskProcesses(str(tmp_path))
    script = f'({escape}"$0" -c "$1" <&3 & ); exec sleep 100'
    environ = {**os.environ, "GRASS_SCRATCH": f"{tmp_path}/j-1/w.0.1.scratch"}
    argv = ["sh", "-c", f"exec 3<&0; {script}", sys.executable, _BURN]
    with running_task(argv, environ) as task:
        assert task.stdin and task.stdout and task.stdout.readline() == b"burnt\n"
        mains = {"j-1/w.0/1": task.pid, "j-1/w.1/1": os.getpid()}
        used = scans.scan(mains)["j-1/w.0/1"]
        assert used.cpu >= 0.39 and used.threads == 2
        [orphan] = [pid for pid, key in scans.owners.items() if key == "j-1/w.0/1" and pid != task.pid]
        task.stdin.write(b"\n")
        task.stdin.flush()
        wait_until(lambda: orphan not in psutil.pids(), what="the end of the orphan")
        assert scans.scan(mains)["j-1/w.0/1"].cpu >= 0.39 and orphan not in scans.owners


_TWICE = """
import os, time
def burn():
    until = time.process_time() + 0.3
    while time.process_time() < until: pass
if os.fork() == 0:
    if os.fork() == 0:
        burn(); print('burnt', flush=True); input()
    os._exit(0)
os.wait()
print('up', flush=True); time.sleep(1.0); burn(); print('both', flush=True); time.sleep(100)
"""


def test_what_an_orphan_used_stays_counted_beside_what_its_attempt_uses_later() -> None:
    scans = TaskProcesses()
    with running_task([sys.executable, "-c", _TWICE]) as task:
        assert task.stdin and task.stdout
        lines = [task.stdout.readline(), task.stdout.readline()]
        assert sorted(lines) == [b"burnt\n", b"up\n"]
        scans.scan({"t": task.pid})
        [orphan] = [pid for pid in scans.owners if pid != task.pid]
        task.stdin.close()
        wait_until(lambda: orphan not in psutil.pids(), what="the end of the orphan")
        assert task.stdout.readline() == b"both\n"
        assert scans.scan({"t": task.pid})["t"].cpu >= 0.59


_FORKS = """
import os, sys
held = bytearray(os.urandom(1)) * (64 << 20)
for _ in range(3):
    if os.fork() == 0:
        sys.stdin.read(); os._exit(0)
print('up', flush=True); sys.stdin.read()
"""


def test_memory_that_processes_share_by_forks_counts_once() -> None:
    scans = TaskProcesses()
    with running_task([sys.executable, "-c", _FORKS]) as task:
        assert task.stdout and task.stdout.readline() == b"up\n"
        used = scans.scan({"t": task.pid})["t"]
        assert used.threads == 4 and 64 << 20 < used.memory < 128 << 20


def test_until_an_attempt_of_several_processes_was_read_its_largest_process_counts() -> None:
    pages, both = SharedPages(longest_part=1e-9), {"a": {os.getpid(): 100, os.getppid(): 300}}
    pages.memory(both)  # a reading, after which the next has to wait
    assert pages.memory({**both, "b": {os.getpid(): 1000, os.getppid(): 300}})["b"] == 1000


def test_details_of_many_attempts_are_read_in_turn() -> None:
    tasks = [subprocess.Popen(["sleep", "100"]) for _ in range(5)]
    scans = TaskProcesses(details_at_once=2)
    mains = {str(number): task.pid for number, task in enumerate(tasks)}
    counts = []
    for _ in range(3):
        counts.append(sum(used.files is not None for used in scans.scan(mains).values()))
    for task in tasks:
        task.kill()
        task.wait()
    assert counts == [2, 4, 5]


def test_commands_of_launchers_count_for_their_task_and_what_they_used_stays_counted() -> None:
    scans = TaskProcesses()
    burn = "import time\nwhile time.process_time() < 0.3: pass\nprint('up', flush=True); input()"
    with (
        subprocess.Popen(["sleep", "100"]) as task,
        subprocess.Popen(["sleep", "100"]) as other,
        subprocess.Popen([sys.executable, "-c", burn], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as rank,
    ):
        assert rank.stdout and rank.stdout.readline() == b"up\n"
        mains = {"j/w.0/1": task.pid, "j/w.1/1": other.pid}
        used = scans.scan(mains, {rank.pid: "j/w.0/1", 1: "j/gone.0/1"})
        assert used["j/w.0/1"].cpu >= 0.29 and used["j/w.0/1"].memory > used["j/w.1/1"].memory
        assert scans.owners[rank.pid] == "j/w.0/1" and used["j/w.1/1"].cpu < 0.2
        rank.communicate(b"\n")
        for after in (scans.scan(mains)["j/w.0/1"], scans.scan(mains)["j/w.0/1"]):
            assert after.cpu >= 0.29 and after.memory < used["j/w.0/1"].memory
        for each in (task, other):
            each.kill()
    assert scans.scan({}) == {} and scans.scan(mains)["j/w.0/1"].cpu == 0
