"""Limits of tasks by control groups of version 2, over folders like the kernel's. Version 1: test_task_limits."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from grass.system import clock
from node.runtime import control_groups, proc
from node.runtime.fork_bombs import MOST_REFUSED, ForkBombs
from node.runtime.isolation import groups
from node.runtime.isolation.groups import Groups

GIB = 1 << 30


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The group of a unit, to which systemd delegates all controllers, with its main process."""
    folder = tmp_path / "grass-shepherd@lab.service"
    folder.mkdir()
    (folder / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    (folder / "cgroup.subtree_control").write_text("\n")
    (folder / "cgroup.procs").write_text(f"{os.getpid()}\n")
    return folder


def test_a_process_alone_in_its_group_makes_room_for_others_below(unit: Path) -> None:
    assert groups.of_version_2(str(unit), os.getpid()) == dict.fromkeys(control_groups.CONTROLLERS, str(unit))
    assert (unit / "grass-shepherd" / "cgroup.procs").read_text() == "0"
    assert (unit / "cgroup.subtree_control").read_text() == "+pids"  # one controller with each write


def test_a_process_that_is_already_below_stays_there(unit: Path) -> None:
    own = unit / "grass-shepherd"
    own.mkdir()
    assert set(groups.of_version_2(str(own), os.getpid()).values()) == {str(unit)}
    assert not (own / "cgroup.procs").exists()


@pytest.mark.parametrize("processes", ["", "1\n{pid}\n", "17\n"])
def test_a_group_with_other_processes_is_left_alone(unit: Path, processes: str) -> None:
    (unit / "cgroup.procs").write_text(processes.format(pid=os.getpid()))
    assert groups.of_version_2(str(unit), os.getpid()) == {}
    assert not (unit / "grass-shepherd").exists() and (unit / "cgroup.subtree_control").read_text() == "\n"


def test_controllers_that_the_unit_does_not_have_limit_nothing(unit: Path) -> None:
    (unit / "cgroup.controllers").write_text("cpu pids\n")
    found = groups.of_version_2(str(unit), os.getpid())
    assert list(found) == ["cpu", "pids"]
    limited = Groups(found, unified=True, memory=GIB)
    assert limited.memory(64 << 20) == 0
    assert [file for _, file, _ in limited.limits(0, 500)] == ["cpu.weight", "pids.max"]
    assert limited.describe() == "cpu, pids (no control groups of this machine for memory)"
    assert (
        Groups({}, unified=True, memory=GIB).describe()
        == "none: no control groups of this machine for memory, cpu, pids"
    )
    assert (
        Groups(dict.fromkeys(control_groups.CONTROLLERS, "x"), unified=True, memory=GIB).describe()
        == "memory, cpu, pids"
    )


@pytest.mark.parametrize("names", [{}, {"cgroup.controllers": None}])
def test_a_system_without_delegation_has_no_limits(tmp_path: Path, names: dict[str, None]) -> None:
    for name in names:
        (tmp_path / name).mkdir()
    assert groups.of_version_2(str(tmp_path / "missing"), os.getpid()) == {}


def test_limits_are_those_of_the_job_within_what_the_machine_can_give(unit: Path) -> None:
    root = str(unit)
    limited = Groups(dict.fromkeys(control_groups.CONTROLLERS, root), unified=True, memory=10 * GIB)
    assert limited.memory(GIB) == GIB
    assert limited.memory(0) == limited.memory(20 * GIB) == 10 * GIB - GIB // 2
    assert limited.memory(1) == groups.LEAST_MEMORY
    assert dict((file, value) for _, file, value in limited.limits(GIB, 1500)) == {
        "memory.max": str(GIB),
        "memory.swap.max": "0",
        "cpu.weight": "150",
        "pids.max": str(groups.MOST_PROCESSES),
    }
    assert limited.limits(GIB, 0)[2] == (root, "cpu.weight", "100")
    assert limited.limits(GIB, 1_000_000)[2] == (root, "cpu.weight", "10000")


def test_the_next_shepherd_sets_limits_again_and_reads_what_the_kernel_did(unit: Path) -> None:
    limited = Groups(dict.fromkeys(control_groups.CONTROLLERS, str(unit)), unified=True, memory=10 * GIB)
    own = unit / "12-34"
    own.mkdir()
    limited.set("12-34", GIB, 2000)
    assert (own / "memory.max").read_text() == str(GIB) and (own / "cpu.weight").read_text() == "200"
    limited.set("12-34", 0, 1000)  # what it asked for is not known: the shepherd was killed before it noted that
    assert (own / "memory.max").read_text() == str(GIB) and (own / "cpu.weight").read_text() == "100"
    limited.set("gone", GIB, 2000)  # its attempt has just ended
    assert not limited.ran_out_of_memory("12-34")
    for describe, ran_out in (("oom 1\noom_kill 0\n", False), ("oom 3\noom_kill 2\n", True)):
        (own / "memory.events").write_text(describe)
        assert limited.ran_out_of_memory("12-34") is ran_out


def test_a_group_whose_starter_is_gone_is_removed_also_when_another_process_has_its_pid(tmp_path: Path) -> None:
    began = proc.stat(os.getpid())
    assert began is not None
    waits, reused, gone = (f"{pid}-{int(made * 1e9)}" for pid, made in starters(began.start))
    for name in (waits, reused, gone, "used", f"{os.getpid()}-of-others"):
        (tmp_path / name).mkdir()
    Groups({"memory": str(tmp_path)}, unified=False, memory=GIB).sweep({"used"})
    assert {path.name for path in tmp_path.iterdir()} == {waits, "used", f"{os.getpid()}-of-others"}


def starters(began: float) -> list[tuple[int, float]]:
    """Return pid and time of three groups: of this process, of one before it with its pid, of one that ended."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    return [(os.getpid(), clock.steady()), (os.getpid(), began - 1), (ended.pid, clock.steady())]


def test_processes_that_a_group_was_refused_before_it_was_looked_at_make_it_no_fork_bomb(tmp_path: Path) -> None:
    """An agent that was restarted finds what the kernel counted in days."""
    bombs, refused = ForkBombs(), 0
    for more, is_one in ((10 * MOST_REFUSED, False), (MOST_REFUSED, False), (MOST_REFUSED + 1, True)):
        refused += more
        (tmp_path / "pids.events").write_text(f"max {refused}\n")
        assert bombs.is_one(str(tmp_path)) is is_one
