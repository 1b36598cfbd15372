"""A cluster whose redis takes no writes, or cannot read its log: what the command says, and what the daemons do."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from grass.config import Secrets
from grass.errors import ConflictError
from grass.model.daemons import REDIS, SUPERVISOR
from grass.provision import daemons, redis_log
from grass.supervision.supervisor import Supervisor
from grass.system import disk
from grass.system.environment import whole_environment
from tests.support.local_cluster import LocalCluster
from tests.support.waiting import wait_until

PROGRAM = [sys.executable, "-c", "from grass.cli.main import main; main()"]
NAMED_WITHIN = 20.0
"""Seconds. It takes 4 on a machine that does nothing else; without a look at the log it would be 30."""


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster().running() as made:
        yield made


def grass(cluster: LocalCluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**whole_environment(), "GRASS_HOME": str(cluster.home)}
    return subprocess.run(
        [*PROGRAM, *arguments], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=50
    )


def job_file(folder: Path) -> str:
    path = folder / "job.yml"
    path.write_text("name: small\ncomponents: {t: {command: 'true'}}\n")
    return str(path)


def pids(cluster: LocalCluster) -> dict[str, int | None]:
    return {name: cluster.pid(name) for name in (*daemons.names(cluster.config), SUPERVISOR)}


def test_while_redis_refuses_writes_the_daemons_wait_and_the_command_says_why(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    password = Secrets.load(cluster.config.home).redis["admin"]
    admin = redis.Redis(unix_socket_path=cluster.config.redis.socket, username="admin", password=password)
    before = pids(cluster)
    with cluster.client() as client:
        client.start(
            {"name": "ends", "components": {"t": {"command": f"until [ -e {tmp_path}/go ]; do sleep .1; done"}}}
        )
        wait_until(lambda: client.job("ends").state == "RUNNING", what="RUNNING")
        admin.config_set("maxmemory", 1)
        (tmp_path / "go").touch()  # its end is reported while nothing can be written
        started = grass(cluster, "job", "start", job_file(tmp_path))
        assert started.returncode == 3
        assert "the store refuses writes: it uses all the memory" in started.stderr
        status = grass(cluster, "status")
        assert status.returncode == 3
        assert "Store" in status.stdout and "the store refuses writes" in status.stdout
        assert client.job("ends").state == "RUNNING"
        admin.config_set("maxmemory", 0)
        assert client.wait("ends", timeout=30).state == "SUCCEEDED"
    admin.close()
    assert grass(cluster, "status").returncode == 0
    assert grass(cluster, "job", "start", job_file(tmp_path)).returncode == 0
    assert pids(cluster) == before


@pytest.mark.needs_root
def test_a_full_disk_gives_74_and_nothing_crashes(tmp_path: Path) -> None:
    home = Path(tempfile.mkdtemp(prefix="grass-full-", dir="/tmp"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64M,mode=0700", "tmpfs", str(home)], check=True)
    cluster = LocalCluster(home=home)
    try:
        cluster.create()
        before = pids(cluster)
        filler = home / "filler"
        with filler.open("wb") as file, pytest.raises(OSError, match="No space left"):
            while file.write(bytes(1 << 20)):
                file.flush()
        assert disk.free(home) < 1 << 20
        started = grass(cluster, "job", "start", job_file(tmp_path))
        assert (started.returncode, started.stdout) == (74, "")
        assert "the store refuses writes: the disk of" in started.stderr
        status = grass(cluster, "status")
        assert status.returncode == 74
        assert re.search(r"is full \(\d+\.?\d*[KM]?i?B free\)", status.stdout)
        filler.unlink()
        assert grass(cluster, "job", "start", job_file(tmp_path)).returncode == 0
        with cluster.client() as client:
            assert client.wait("small", timeout=30).state == "SUCCEEDED"
        assert pids(cluster) == before
    finally:
        if (home / "clusters" / "local").exists():
            cluster.delete()
        subprocess.run(["umount", str(home)], check=True)
        shutil.rmtree(home)


FILLS = """
import os, time
while True:
    try:
        os.write(1, 64 * (999 * b"x" + b"\\n"))
    except OSError:
        time.sleep(0.01)
"""


@pytest.mark.needs_root
def test_a_job_that_fills_the_disk_and_goes_on_is_stopped_and_others_are_deleted(tmp_path: Path) -> None:
    home = Path(tempfile.mkdtemp(prefix="grass-full-", dir="/tmp"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96M,mode=0700", "tmpfs", str(home)], check=True)
    cluster = LocalCluster(home=home)
    try:
        cluster.create()
        with cluster.client() as client:
            client.start({"name": "other", "components": {"t": {"command": "true"}}})
            client.wait("other", timeout=30)
            client.start({"name": "fills", "components": {"t": {"command": [sys.executable, "-c", FILLS]}}})
            client.start({"name": "ends", "components": {"t": {"command": "yes"}}})
            wait_until(lambda: disk.free(home) < 1 << 20, what="a full disk")
            refused = grass(cluster, "job", "start", job_file(tmp_path))
            assert refused.returncode == 74 and " fills-" in refused.stderr.partition("largest logs")[2]
            assert client.wait("ends", timeout=30).state == "FAILED"
            assert client.job("fills").state == "RUNNING" and disk.is_full(home)
            for words in (["stop", "fills"], ["delete", "other"]):
                done = grass(cluster, "job", *words)
                assert done.returncode == 0, done.stderr
            assert client.wait("fills", timeout=30).state in ("STOPPED", "FAILED")
            done = grass(cluster, "clean", "-y")
            assert (done.returncode, done.stdout) == (0, "deleted 2 jobs\n"), done.stderr
            wait_until(lambda: not disk.is_full(home), what="space")
            client.start({"name": "after", "components": {"t": {"command": "true"}}})
            assert client.wait("after", timeout=30).state == "SUCCEEDED"
    finally:
        if (home / "clusters" / "local").exists():
            cluster.delete()
        subprocess.run(["umount", str(home)], check=True)
        shutil.rmtree(home)


def stopped(cluster: LocalCluster) -> Path:
    """Stop the cluster. Return redis' log: the newest part, or, of a server before 7.0, the only file."""
    subprocess.run([sys.executable, "-m", "grass.provision.shutdown", str(cluster.config.path)], check=True)
    [log] = [*(Path(cluster.config.home) / "redis").glob("**/*.incr.aof")] or [
        Path(cluster.config.home) / "redis" / "appendonly.aof"
    ]
    return log


def damaged(cluster: LocalCluster) -> Path:
    """The cluster is stopped, and a command in the middle of redis' log is no command any more."""
    log = stopped(cluster)
    content = bytearray(log.read_bytes())
    at = content.rindex(b"\r\n*", 0, len(content) // 2) + 2
    content[at : at + 1] = b"?"
    log.write_bytes(content)
    return log


def test_a_damaged_log_is_named_within_seconds_and_repaired_only_when_asked(cluster: LocalCluster) -> None:
    with cluster.client() as client:
        client.start({"name": "early", "components": {"t": {"command": "true"}}})
        client.wait("early", timeout=20)
    log = damaged(cluster)
    size = log.stat().st_size
    for _ in range(2):  # the first leaves daemons behind that wait for redis
        began = time.monotonic()
        done = grass(cluster, "create")
        assert done.returncode == 3
        assert time.monotonic() - began < NAMED_WITHIN
        assert f"redis cannot read its log {log}: damaged after byte" in done.stderr
        assert "`grass create --repair` keeps a copy" in done.stderr
        assert log.stat().st_size == size
    assert "redis cannot read its log" in grass(cluster, "status").stderr
    supervisor = Supervisor(cluster.config)  # starts redis again and again
    supervisor.end_daemon(REDIS, 20)
    assert cluster.states()[REDIS] == "STOPPED"
    supervisor.start_daemon(REDIS)
    program = [sys.executable, "-m", "grass.provision.redis_log", str(cluster.config.path)]
    on_host = subprocess.run(program, capture_output=True, text=True)
    assert on_host.returncode == 3
    assert f"redis cannot read its log {log}" in on_host.stdout
    assert (
        f"`systemctl stop grass-redis@{cluster.config.name}`, `runuser -u grass -- {sys.executable}" in on_host.stdout
    )
    assert log.stat().st_size == size
    repaired = grass(cluster, "create", "--repair")
    assert repaired.returncode == 0, repaired.stderr
    assert f"bytes off {log}; a copy of the damaged file is" in repaired.stderr
    [copy] = log.parent.glob(f"{log.name}.damaged-*")
    assert copy.stat().st_size == size
    with cluster.client() as client:
        client.start({"name": "after", "components": {"t": {"command": "true"}}})
        assert client.wait("after", timeout=30).state == "SUCCEEDED"


@pytest.mark.nightly  # contract/test_redis_log.py looks at such logs in every run
def test_repair_of_a_log_that_is_whole_changes_nothing(cluster: LocalCluster) -> None:
    with pytest.raises(ConflictError, match="exists and runs"):
        cluster.create()
    assert grass(cluster, "create", "--repair").returncode == 2  # it runs
    subprocess.run([sys.executable, "-m", "grass.provision.shutdown", str(cluster.config.path)], check=True)
    done = grass(cluster, "create", "--repair")
    assert done.returncode == 0 and "is whole" in done.stderr


@pytest.mark.nightly  # as the test before this one
def test_an_incomplete_last_command_is_no_damage(cluster: LocalCluster) -> None:
    """As a power cut leaves it: redis cuts it off by itself."""
    with stopped(cluster).open("ab") as file:
        file.write(b"*3\r\n$3\r\nSET\r\n$1\r\na")
    assert grass(cluster, "create").returncode == 0
    assert not redis_log.damage(cluster.config)
