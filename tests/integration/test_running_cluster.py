"""A local cluster that runs: what is refused, repaired or done beside it. Its tests share one cluster."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from grass.config import Secrets
from grass.errors import ConflictError, NotFoundError
from grass.manifest.settings import PortSettings, Settings
from grass.provision import daemons, local
from tests.support.local_cluster import LocalCluster
from tests.support.processes import alive


@pytest.fixture(scope="module")
def began() -> float:
    """Wall time before the cluster was made."""
    return time.time()


@pytest.fixture(scope="module")
def cluster(began: float) -> Iterator[LocalCluster]:
    with LocalCluster(kept_keys=False).running() as made:  # whole, as a user's
        yield made


@pytest.fixture
def sleeper(cluster: LocalCluster, tmp_path: Path) -> Iterator[int]:
    """The pid of a task that runs."""
    try:
        yield cluster.start_sleeper(tmp_path / "marks")
    finally:
        with cluster.client() as client:
            client.stop("sleeper")
            client.wait("sleeper", timeout=30)


def test_a_new_cluster_is_ready_and_all_its_daemons_run(cluster: LocalCluster, began: float) -> None:
    assert cluster.states() == dict.fromkeys((daemons.SUPERVISOR, *daemons.names(cluster.config)), "RUNNING")
    for entry in local.status("local", cluster.home):
        assert entry.pid and entry.start and began - 1 < entry.start < time.time() + 1
    with cluster.client() as client:
        assert [node["state"] for node in client.nodes()] == ["READY"]


def test_creating_what_runs_already_is_refused_and_changes_nothing(cluster: LocalCluster) -> None:
    before = {entry.name: entry.pid for entry in local.status("local", cluster.home)}
    with pytest.raises(ConflictError, match="cluster local exists and runs; `grass delete local` ends it"):
        cluster.create()
    assert {entry.name: entry.pid for entry in local.status("local", cluster.home)} == before


def test_creating_what_runs_already_replaces_lost_and_damaged_files_of_the_client(cluster: LocalCluster) -> None:
    before = {entry.name: entry.pid for entry in local.status("local", cluster.home)}
    files = Path(cluster.config.home) / "client"
    (files / "session.json").unlink(missing_ok=True)
    (files / "user.pem").unlink()
    cluster.create()
    with cluster.client() as client:
        assert [node["state"] for node in client.nodes()] == ["READY"]
    for name in ("user.pem", "profile.json", "master.pub.json"):
        (files / "session.json").unlink(missing_ok=True)
        (files / name).write_text("garbage")
        cluster.create()
        with cluster.client() as client:
            assert [node["state"] for node in client.nodes()] == ["READY"], name
        assert (files / name).stat().st_mode & 0o777 == 0o600
    assert {entry.name: entry.pid for entry in local.status("local", cluster.home)} == before


def test_deleting_what_does_not_exist_names_what_does(cluster: LocalCluster) -> None:
    with pytest.raises(NotFoundError, match="there is no cluster lokal; there are: local"):
        local.delete("lokal", home=cluster.home, progress=lambda _: None)


def test_two_clusters_live_side_by_side_in_one_home(cluster: LocalCluster) -> None:
    two = LocalCluster(Settings(name="second"), cluster.home)
    try:
        two.create()
        with cluster.client() as first, two.client() as second:
            first.start({"name": "only-here", "components": {"t": {"command": "true"}}})
            assert first.wait("only-here", timeout=30)["state"] == "SUCCEEDED"
            assert second.jobs() == []
    finally:
        two.end()
    assert set(cluster.states().values()) == {"RUNNING"}


def test_work_that_comes_before_the_idle_shut_down_does_keeps_the_cluster(cluster: LocalCluster, sleeper: int) -> None:
    command = [sys.executable, "-m", "grass.provision.shutdown", str(cluster.config.path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "it stays" in done.stdout
    assert set(cluster.states().values()) == {"RUNNING"} and alive(sleeper)


def test_daemons_and_tasks_have_no_secret_in_their_environment_or_arguments(
    cluster: LocalCluster, sleeper: int
) -> None:
    secrets = Secrets.load(cluster.config.home)
    words = [word.encode() for word in (*secrets.redis.values(), secrets.node_token)]
    for pid in [*cluster.pids(), sleeper]:
        with suppress(FileNotFoundError, ProcessLookupError):  # what a daemon forked may have ended
            for file in ("environ", "cmdline"):
                text = Path(f"/proc/{pid}/{file}").read_bytes()
                assert not any(word in text for word in words)


def test_a_port_that_the_settings_ask_for_and_somebody_has_is_refused(cluster: LocalCluster) -> None:
    taken = cluster.config.master.api_port
    second = LocalCluster(Settings(name="second", ports=PortSettings(api=taken)), cluster.home, kept_keys=False)
    with pytest.raises(ConflictError, match=f"port {taken}"):
        second.create()
    assert not (cluster.home / "clusters" / "second").exists()
