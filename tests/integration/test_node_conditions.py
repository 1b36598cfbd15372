"""A node-agent whose disk fills, or whose share goes, under it: nothing is started until that is over."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from grass.store.embedded import NoRedisError, find_server
from grass.wire.task_events import Started, Waiting
from tests.support.needs import missing, require_root
from tests.support.node_run import NodeRun

pytestmark = pytest.mark.timeout(120)

ONE, TWO, THREE = "j-1/c.0/1", "j-1/c.1/1", "j-1/d.0/1"


@pytest.fixture(autouse=True)
def _needs() -> None:
    require_root()
    try:
        find_server()
    except NoRedisError as error:
        missing("redis", str(error))


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32M", "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False)


def codes(node: NodeRun) -> list[str]:
    return [each.code for each in node.conditions]


def test_on_a_full_disk_nothing_starts_not_even_the_rest_of_an_array_and_the_agents_successor_knows() -> None:
    with NodeRun(low_disk=4 << 20) as node:
        node.wait(lambda: bool(node.hellos))
        node.end_agent()
        scratch = Path(node.config.home) / "node"
        kept = [path.rename(Path(node.config.home) / f"kept-{path.name}") for path in scratch.iterdir()]
        with small_disk(scratch):
            for path in kept:  # what the shepherd has open stays what it is
                subprocess.run(["cp", "-a", path, scratch / path.name.removeprefix("kept-")], check=True)
            node.start_agent()
            node.wait(lambda: len(node.hellos) == 2)
            node.start("while [ ! -e $GRASS_SCRATCH/enough ]; do sleep 0.05; done", ONE, TWO, width=1)
            node.event(ONE, Started)
            (scratch / "filler").write_bytes(bytes(30 << 20))
            node.wait(lambda: codes(node) == ["disk"])
            assert "disk almost full (less than 4MiB free" in node.conditions[0].message
            held = node.event(TWO, Waiting).reason
            assert held.code == "disk" and held.message.startswith("held back on its node: disk almost full")

            node.kill_agent()
            node.start_agent()
            node.wait(lambda: len(node.hellos) == 3)
            assert [each.code for each in node.hellos[2].conditions] == ["disk"]
            node.path(ONE, "scratch").joinpath("enough").touch()
            node.ended(ONE)
            node.start("true", THREE, launch="j-1/d")
            assert node.event(THREE, Waiting).reason.code == "disk"
            assert not node.of(TWO, Started)

            (scratch / "filler").unlink()
            node.event(TWO, Started)
            assert node.ended(THREE).code == 0
            node.wait(lambda: codes(node) == [])
            node.stop(TWO)
            node.ended(TWO)
            node.end_agent()


def test_when_the_share_is_unmounted_starts_wait_until_it_is_mounted_again(tmp_path: Path) -> None:
    share = tmp_path / "share"
    with small_disk(share), NodeRun(share=str(share)) as node:
        node.start("true", ONE)
        assert node.ended(ONE).code == 0 and node.ended(ONE).reason is None
        until = "until [ -e $GRASS_DATA/here ]; do sleep 0.02; done"
        node.start(until, THREE, launch="j-1/d")
        node.event(THREE, Started)
        subprocess.run(["umount", "--lazy", str(share)], check=True)
        node.wait(lambda: codes(node) == ["share"])
        assert node.conditions[0].message == f"nothing is mounted at {share}, where the share was"
        node.start(until, TWO)
        assert node.event(TWO, Waiting).reason.code == "share"
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32M", "tmpfs", str(share)], check=True)
        (share / "here").write_text("it is\n")
        assert node.ended(TWO).code == 0 and node.ended(TWO).reason is None
        node.wait(lambda: codes(node) == [])
        end = node.ended(THREE)  # it ran meanwhile, and what it wrote may be lost
        assert end.code == 0 and end.reason is not None and end.reason.code == "share"


def test_what_waits_behind_a_condition_can_be_stopped(tmp_path: Path) -> None:
    share = tmp_path / "share"
    with small_disk(share), NodeRun(share=str(share)) as node:
        node.wait(lambda: bool(node.hellos))
        subprocess.run(["umount", "--lazy", str(share)], check=True)
        node.wait(lambda: codes(node) == ["share"])
        node.start("true", ONE)
        node.event(ONE, Waiting)
        node.stop(ONE)
        assert node.ended(ONE).started is None and not node.of(ONE, Started)


def test_a_disk_that_takes_no_file_of_a_job_holds_its_tasks_back_and_does_not_end_the_agent() -> None:
    with NodeRun() as node:
        node.start("sleep 300", ONE)
        node.event(ONE, Started)
        blocker = Path(node.config.home) / "node" / "jobs" / "j-2"
        blocker.touch()  # as a full disk would, it lets nobody make a folder
        node.change(addresses={"j-2": "d.0 10.0.0.1 4000 x\n"})
        node.start("cat $GRASS_ADDRESSES", "j-2/d.0/1", launch="j-2/d")
        node.wait(lambda: codes(node) == ["disk"])
        assert "cannot write the files of jobs" in node.conditions[0].message
        assert node.event("j-2/d.0/1", Waiting).reason.code == "disk"
        node.stop(ONE)
        node.ended(ONE)  # what runs can be stopped
        blocker.unlink()
        assert node.ended("j-2/d.0/1").code == 0
        assert "10.0.0.1 4000" in node.path("j-2/d.0/1", "stdout").read_text()
        assert len(node.hellos) == 1
