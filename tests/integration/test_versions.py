"""Real clusters of one version of Grass, in the hands of another."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from grass.provision import stopping
from tests.support.local_cluster import LocalCluster
from tests.support.other_version import ROOT, earlier, environment
from tests.support.waiting import wait_until

BEFORE_REVISIONS = "5f8d30c6"
"""The last version that states no numbers in what it keeps."""
PROGRAM = [sys.executable, "-c", "from grass.cli.entry import main; main()"]
JOB = {"name": "j", "components": {"w": {"command": "echo done"}}}


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="grass-versions-", dir="/tmp") as folder:  # a short path: of sockets
        yield Path(folder)


def grass(folder: Path, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the program of the version in ``folder``."""
    env = {**environment(folder), "GRASS_HOME": str(home)}
    return subprocess.run(
        [*PROGRAM, *words], cwd=home, env=env, capture_output=True, text=True, timeout=50, check=False
    )


@pytest.mark.timeout(300)
@pytest.mark.nightly  # with an API, contract/test_versions.py; what is refused, test_cli.py
def test_a_cluster_goes_back_to_the_version_before_the_numbers_and_comes_again(home: Path, tmp_path: Path) -> None:
    old = earlier(tmp_path / "earlier", BEFORE_REVISIONS)
    with LocalCluster(home=home).running() as cluster, cluster.client() as client:
        client.start(JOB)
        assert client.wait("j", 30).state == "SUCCEEDED"
        for version in (old, ROOT):
            stopping.stop(cluster.config)
            started = grass(version, home, "create")
            assert started.returncode == 0, started.stderr
            wait_until(lambda: client.status().nodes == {"READY": 1}, 20, "the node")
            assert [job.state for job in client.jobs(all=True)] == ["SUCCEEDED"]
            assert [line.text for line in client.logs("j")] == ["done"]
