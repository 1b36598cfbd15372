"""A local cluster that runs: what is refused, repaired or done beside it. Its tests share one cluster."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
import redis

from grass.config import Secrets
from grass.errors import ConflictError, NotFoundError
from grass.manifest.local_settings import LocalSettings, PortSettings
from grass.model.daemons import SUPERVISOR
from grass.provision import daemons, local
from grass.store.connect import open_backend
from tests.support.local_cluster import LocalCluster, daemon_states
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
    assert cluster.states() == dict.fromkeys((SUPERVISOR, *daemons.names(cluster.config)), "RUNNING")
    for entry in daemon_states("local", cluster.home):
        assert entry.pid and entry.start and began - 1 < entry.start < time.time() + 1
    with cluster.client() as client:
        assert [node.state for node in client.nodes()] == ["READY"]


def test_creating_what_runs_already_is_refused_and_changes_nothing(cluster: LocalCluster) -> None:
    before = {entry.name: entry.pid for entry in daemon_states("local", cluster.home)}
    with pytest.raises(ConflictError, match="cluster local exists and runs; `grass delete local` ends it"):
        cluster.create()
    assert {entry.name: entry.pid for entry in daemon_states("local", cluster.home)} == before


def test_creating_what_runs_already_replaces_lost_and_damaged_files_of_the_client(cluster: LocalCluster) -> None:
    before = {entry.name: entry.pid for entry in daemon_states("local", cluster.home)}
    files = Path(cluster.config.home) / "client"
    (files / "session.json").unlink(missing_ok=True)
    (files / "user.pem").unlink()
    cluster.create()
    with cluster.client() as client:
        assert [node.state for node in client.nodes()] == ["READY"]
    for name in ("user.pem", "profile.json", "master.pub.json"):
        (files / "session.json").unlink(missing_ok=True)
        (files / name).write_text("garbage")
        cluster.create()
        with cluster.client() as client:
            assert [node.state for node in client.nodes()] == ["READY"], name
        assert (files / name).stat().st_mode & 0o777 == 0o600
    assert {entry.name: entry.pid for entry in daemon_states("local", cluster.home)} == before


def test_deleting_what_does_not_exist_names_what_does(cluster: LocalCluster) -> None:
    with pytest.raises(NotFoundError, match="there is no cluster lokal; there are: local"):
        local.delete("lokal", home=cluster.home, progress=lambda _: None)


def test_two_clusters_live_side_by_side_in_one_home(cluster: LocalCluster) -> None:
    two = LocalCluster(LocalSettings(name="second"), cluster.home)
    try:
        two.create()
        with cluster.client() as first, two.client() as second:
            first.start({"name": "only-here", "components": {"t": {"command": "true"}}})
            assert first.wait("only-here", timeout=30).state == "SUCCEEDED"
            assert second.jobs() == []
    finally:
        two.end()
    assert set(cluster.states().values()) == {"RUNNING"}


def test_work_that_comes_before_the_idle_shut_down_does_keeps_the_cluster(cluster: LocalCluster, sleeper: int) -> None:
    command = [sys.executable, "-m", "grass.provision.shutdown", str(cluster.config.path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "it stays" in done.stdout
    assert set(cluster.states().values()) == {"RUNNING"} and alive(sleeper)


def test_no_secret_is_in_environments_arguments_logs_or_the_store_and_files_with_one_are_for_their_owner_only(
    cluster: LocalCluster, sleeper: int
) -> None:
    home, secrets = Path(cluster.config.home), Secrets.load(cluster.config.home)
    keys = [path.read_text().splitlines()[2] for path in (home / "master" / "key.pem", home / "client" / "user.pem")]
    words = [word.encode() for word in (*secrets.redis.values(), secrets.node_token, *keys)]
    for path, content in files(home):
        if any(word in content for word in words):
            assert path.stat().st_mode & 0o077 == 0 and path.suffix != ".log", path
            assert not any(path.is_relative_to(folder) for folder in (home / "logs", cluster.config.data_dir)), path
    with closing(open_backend(cluster.config, secrets, "admin")) as store:
        kept = dict(everything(store._redis))
        assert any("sleeper" in value for value in kept.values())
        assert not [key for key, value in kept.items() if any(word.decode() in value for word in words)]
    for pid in [*cluster.pids(), sleeper]:
        with suppress(FileNotFoundError, ProcessLookupError):  # what a daemon forked may have ended
            for file in ("environ", "cmdline"):
                text = Path(f"/proc/{pid}/{file}").read_bytes()
                assert not any(word in text for word in words)


def files(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Return each file below a folder in which daemons make and remove some meanwhile, with its content."""
    for path in (Path(place, name) for place, _, names in os.walk(folder) for name in names):
        with suppress(FileNotFoundError):
            if path.is_file():
                yield path, path.read_bytes()


def everything(store: redis.Redis) -> Iterator[tuple[str, str]]:
    """Return each key with all that is kept there, as text."""
    read: dict[str, Callable[[str], object]] = {
        "string": store.get,
        "hash": store.hgetall,
        "stream": store.xrange,
        "set": store.smembers,
        "zset": lambda key: store.zrange(key, 0, -1),
        "list": lambda key: store.lrange(key, 0, -1),
        "none": lambda _: None,  # it was removed meanwhile
    }
    for key in map(str, store.scan_iter()):
        yield key, repr(read[store.type(key)](key))


def test_a_port_that_the_settings_ask_for_and_somebody_has_is_refused(cluster: LocalCluster) -> None:
    taken = cluster.config.master.api_port
    second = LocalCluster(LocalSettings(name="second", ports=PortSettings(api=taken)), cluster.home, kept_keys=False)
    with pytest.raises(ConflictError, match=f"port {taken}"):
        second.create()
    assert not (cluster.home / "clusters" / "second").exists()


def test_the_log_is_whole_as_soon_as_the_job_has_ended(cluster: LocalCluster) -> None:
    with cluster.client() as client:
        for number in range(20):
            client.start({"name": f"told-{number}", "components": {"t": {"command": f"echo {number}; echo end >&2"}}})
            client.wait(f"told-{number}", timeout=20)
            assert sorted(line.text for line in client.logs(f"told-{number}")) == sorted([str(number), "end"])
