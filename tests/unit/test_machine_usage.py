"""What the machine uses, over folders like those of sysfs and of control groups."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from node.agent import container_usage
from node.agent.machine_usage import MachineUsage
from node.agent.task_processes import TaskProcesses, Used
from node.runtime import control_groups


def write(path: Path, text: str | int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_rdma_ports_and_cpu_packages(tmp_path: Path) -> None:
    counters, package = tmp_path / "class/infiniband/mlx5_0/ports/1/counters", tmp_path / "class/powercap/intel-rapl:0"
    clock = Clock()

    def state(sent: int, received: int, microjoules: int) -> None:
        write(counters / "port_xmit_data", sent)
        write(counters / "port_rcv_data", received)
        write(package / "energy_uj", microjoules)

    write(package / "max_energy_range_uj", 100_000_000)
    write(tmp_path / "class/powercap/intel-rapl:0:1/energy_uj", 5)  # a part of the package
    state(1000, 0, 90_000_000)
    machine = MachineUsage(tmp_path, tmp_path, clock)
    state(2000, 500, 20_000_000)  # the counter of energy has passed its range
    clock.now += 2.0
    sample, interval = machine.sample()
    assert [(port.port, port.sent, port.received) for port in sample.rdma] == [("mlx5_0/1", 2000, 1000)]
    assert (interval.seconds, interval.energy, sample.power) == (2.0, 30.0, 15.0)


def test_a_machine_that_does_not_tell_its_energy(tmp_path: Path) -> None:
    sample, interval = MachineUsage(tmp_path, tmp_path).sample()
    assert interval.energy is None and sample.power is None and sample.rdma == ()
    assert 0 <= sample.cpu <= 100 and len(sample.cores) == os.cpu_count()
    assert 0 < sample.memory < sample.memory_total and 0 < sample.disk_used < sample.disk_total


def test_the_control_groups_of_a_container_in_version_2(tmp_path: Path) -> None:
    [(name, folder)] = control_groups.folders("0::/docker/abc\n", str(tmp_path)).items()
    assert (name, folder) == ("", f"{tmp_path}/docker/abc")
    write(Path(folder) / "cpu.stat", "usage_usec 2500000\nuser_usec 1")
    write(Path(folder) / "memory.current", 1000)
    write(Path(folder) / "memory.stat", "anon 5\ninactive_file 300")
    write(Path(folder) / "io.stat", "8:0 rbytes=10 wbytes=20 rios=1\n8:16 rbytes=1 wbytes=2 rios=1")
    write(Path(folder) / "pids.current", 4)
    assert container_usage.measure({"": folder}, Used(files=3)) == Used(2.5, 700, 4, 3, 11, 22)


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
