"""What a task has in /dev/shm is there again for its next attempt on the node, and goes with it: real runtimes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from node.runtime.docker.kept_memory import folder_of
from node.runtime.protocol import Stop
from tests.support.docker_run import DockerRun
from tests.support.engine import require_engine
from tests.support.shepherd_run import ShepherdRun

MAP = """
import mmap, os, sys
with open(f"/dev/shm/{sys.argv[1]}", "a+b") as file:
    print(os.path.getsize(file.name), flush=True)
    file.truncate(8192)
    memory = mmap.mmap(file.fileno(), 8192)
    memory[:] = b"x" * 8192
    if len(sys.argv) > 2:
        import time
        time.sleep(60)
"""
"""Prints the size that its segment had, and writes to it. With another argument, it goes on."""
LAUNCH = "j-1/w"


@pytest.fixture
def shepherd() -> Iterator[ShepherdRun]:
    with ShepherdRun() as run:
        run.connect()
        yield run


@pytest.fixture
def name() -> Iterator[str]:
    made = f"grass-test-kept-{os.getpid()}"
    yield made
    Path("/dev/shm", made).unlink(missing_ok=True)


def attempt(run: ShepherdRun, number: int, name: str, *more: str, keep: int = 1 << 20) -> str:
    """Start an attempt. It is killed once it has written, if it goes on."""
    key = f"{LAUNCH}.0/{number}"
    run.launch(LAUNCH, [sys.executable, "-c", MAP, name, *more], keep=keep)
    run.start(LAUNCH, key)
    if more:
        run.wait(lambda: run.path(key, "stdout").exists() and "\n" in run.stdout(key))
        run.runtime.stop([Stop(key, 0.0)])
    run.ended(key)
    return run.stdout(key).strip()


def test_a_segment_of_a_killed_attempt_is_there_for_the_next_and_goes_with_its_task(
    shepherd: ShepherdRun, name: str
) -> None:
    segment = Path("/dev/shm", name)
    assert attempt(shepherd, 1, name, "stay") == "0"
    assert attempt(shepherd, 2, name) == "8192"
    shepherd.runtime.let_go(["j-1/w.1", "j-2/w.0"])
    assert attempt(shepherd, 3, name) == "8192", "what others need not keep is not that of this task"
    shepherd.runtime.let_go(["j-1/w.0"])
    shepherd.wait(lambda: not segment.exists())


def test_kept_segments_go_with_their_component_and_are_known_to_the_next_shepherd(
    shepherd: ShepherdRun, name: str
) -> None:
    assert attempt(shepherd, 1, name, "stay") == "0"
    before = shepherd.lists
    shepherd.kill_shepherd()
    shepherd.wait(lambda: shepherd.lists > before)
    assert attempt(shepherd, 2, name, "stay") == "8192"
    shepherd.runtime.drop([LAUNCH])
    shepherd.wait(lambda: not Path("/dev/shm", name).exists())


def test_more_than_the_memory_of_the_task_is_not_kept(shepherd: ShepherdRun, name: str) -> None:
    assert attempt(shepherd, 1, name, "stay", keep=4096) == "0"
    shepherd.wait(lambda: not Path("/dev/shm", name).exists())
    assert "8192 bytes in /dev/shm are not kept: its memory is 4096 bytes" in shepherd.log_text()


def test_nothing_is_kept_when_the_shepherd_ends(shepherd: ShepherdRun, name: str) -> None:
    assert attempt(shepherd, 1, name, "stay") == "0"
    shepherd.end_daemon()
    assert not Path("/dev/shm", name).exists()
    shepherd.start_daemon()
    shepherd.relist()


def test_memory_of_a_container_is_there_for_the_next_attempt_only_where_it_is_kept() -> None:
    require_engine()
    with DockerRun() as run:
        write = "cat /dev/shm/x; echo kept > /dev/shm/x; stat -c %a /dev/shm; kill -9 $$"
        for number in (1, 2):
            run.run(write, f"j-1/c.0/{number}", keep=1 << 20)
        assert run.stdout("j-1/c.0/2") == "kept\n1777\n"
        run.run("cat /dev/shm/x", "j-1/c.1/1", keep=1 << 20)
        assert run.stdout("j-1/c.1/1") == "", "another task has a memory of its own"
        run.reconnect()
        folder = folder_of(run.config, "j-1/c.0/1")
        assert (folder / "x").read_text() == "kept\n"
        run.runtime.let_go(["j-1/c.0"])
        assert not folder.exists() and folder_of(run.config, "j-1/c.1/1").exists()
        run.runtime.drop(["j-1/c"])
        assert not folder.parent.parent.exists(), "nothing is left of the node"


def test_a_container_begins_with_empty_memory_after_more_than_it_may_keep() -> None:
    require_engine()
    with DockerRun() as run:
        run.run("head -c 9000 /dev/zero > /dev/shm/x", "j-1/c.0/1", keep=1 << 20)
        run.run("ls /dev/shm", "j-1/c.0/2", keep=4096)
        assert run.stdout("j-1/c.0/2") == ""
        run.runtime.let_go(["j-1/c.0"])
