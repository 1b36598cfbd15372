"""A task that the kernel does not let go, in a real local cluster: what `job stop`, the node and the task say."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from grass.store.embedded import NoRedisError, find_server
from tests.support.local_cluster import LocalCluster
from tests.support.needs import missing, require_root
from tests.support.waiting import wait_until

FREEZER = Path("/sys/fs/cgroup/freezer")
pytestmark = [pytest.mark.needs_root, pytest.mark.timeout(120)]


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    try:
        find_server()
    except NoRedisError as error:
        missing("redis", str(error))
    with LocalCluster().running() as made:
        yield made


@pytest.fixture
def frozen() -> Iterator[Path]:
    """A control group whose processes can be held in state D, where KILL does not reach them."""
    require_root()
    if not FREEZER.is_dir():
        pytest.skip("needs the freezer of control groups version 1")
    folder = FREEZER / f"grass-stuck-{os.getpid()}"
    folder.mkdir()
    yield folder
    (folder / "freezer.state").write_text("THAWED")
    wait_until(lambda: not (folder / "cgroup.procs").read_text(), what="the end of what was frozen")
    folder.rmdir()


def test_job_stop_says_what_it_waits_for_and_the_node_is_in_quarantine_meanwhile(
    cluster: LocalCluster, frozen: Path
) -> None:
    with cluster.client() as client:
        client.start({"name": "hangs", "components": {"t": {"command": "exec sleep 1000"}}})
        wait_until(lambda: [task.state for task in client.tasks("hangs")] == ["RUNNING"], what="the task")
        (task,) = client.tasks("hangs")
        (frozen / "cgroup.procs").write_text(str(task.pid))
        (frozen / "freezer.state").write_text("FROZEN")
        client.stop("hangs", grace=0)
        wait_until(lambda: client.nodes()[0].state == "QUARANTINED", what="the quarantine")
        assert client.nodes()[0].reason.code == "stuck"
        grass = [str(Path(sys.executable).parent / "grass"), "job", "stop", "hangs"]
        environment = {**os.environ, "GRASS_HOME": str(cluster.home)}
        said = subprocess.run(grass, env=environment, capture_output=True, text=True, check=True).stdout
        assert f"waits for 1 task of t: process {task.pid} (sleep) of a task does not end after KILL" in said, said
        (frozen / "freezer.state").write_text("THAWED")
        assert client.wait("hangs", timeout=30).state == "STOPPED"
        wait_until(lambda: client.nodes()[0].state == "READY", what="the node")
