"""A cluster on several hosts loses its master: another machine becomes it, from a backup, and no task is run twice."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from grass.api.client import Client
from tests.support.lab import ROOT, SessionLab
from tests.support.needs import require
from tests.support.on_premises import Cluster, with_a_node
from tests.support.waiting import wait_until

pytestmark = (
    pytest.mark.nightly
)  # what is decided, unit/test_restore_on_host.py; the fence, contract/test_predecessor.py
SECRET = {"GRASS_BACKUP_PASSPHRASE": "geheim"}
LONG = "echo long >> /tmp/runs; i=0; while [ ! -e /tmp/enough ]; do i=$((i+1)); echo tick $i; sleep 0.5; done"
SOON = "echo soon >> /tmp/runs; while [ ! -e /tmp/soon ]; do sleep 0.2; done; exit 7"


@pytest.fixture
def cluster(lab: SessionLab, site: Path, tmp_path: Path) -> Iterator[Cluster]:
    with with_a_node(lab, site, tmp_path / "home", ("master", "n1", "n2", "n3")) as made:
        yield made


def job(cluster: Cluster, name: str, command: str) -> None:
    file = cluster.home / f"{name}.yml"
    file.write_text(json.dumps({"name": name, "components": {"w": {"command": command}}}))
    assert cluster.grass("job", "start", str(file)).returncode == 0


def tasks(cluster: Cluster, name: str) -> list[tuple[str, int, int | None]]:
    """Return state, attempt and exit code of each task. The client is a new one: the master may be another."""
    with Client(cluster.name, home=cluster.home) as client:
        return [(each.state, each.attempt, each.exit_code) for each in client.tasks(name)]


def test_a_new_master_adopts_what_runs_runs_nothing_twice_and_fences_the_old_one(cluster: Cluster) -> None:
    lab, n2 = cluster.lab, cluster.lab.hosts["n2"].address
    backup = cluster.home / "b.grass-backup"
    job(cluster, "long", LONG)
    job(cluster, "soon", SOON)
    wait_until(lambda: len(lab.ssh("n1", "cat", "/tmp/runs").stdout.split()) == 2, 30, "both tasks")
    done = cluster.grass("backup", "--to", str(backup), "--logs", **SECRET)
    assert done.returncode == 0 and "2 jobs backed up" in done.stdout, done.stderr
    for secret, on, code, said in (
        ({"GRASS_BACKUP_PASSPHRASE": "falsch"}, n2, 4, "the passphrase is wrong"),
        (SECRET, n2, 2, "its master on"),
        (SECRET, lab.hosts["master"].address, 2, "lives, and a restore would end it"),
    ):
        refused = cluster.grass("restore", str(backup), "--on", on, **secret)
        assert refused.returncode == code and said in refused.stderr, refused.stderr
    assert not lab.ssh("n2", "ls", "/var/lib/grass").stdout, "nothing half done"

    lab.hosts["master"].kill()
    lab.ssh("n1", "touch", "/tmp/soon")
    done = cluster.grass("restore", str(backup), "--on", lab.hosts["n1"].address, **SECRET)
    assert done.returncode == 2 and "is a node of cluster" in done.stderr, done.stderr
    done = cluster.grass("restore", str(backup), "--on", n2, **SECRET)
    assert done.returncode == 0, done.stderr
    wait_until(lambda: tasks(cluster, "soon") == [("FAILED", 1, 7)], 60, "the end that n1 recorded")
    assert tasks(cluster, "long") == [("RUNNING", 1, None)]
    again = cluster.grass("restore", str(backup), "--on", n2, **SECRET)
    assert again.returncode == 0, again.stderr  # it changes nothing

    lab.hosts["master"].start()
    acl = "/var/lib/grass/clusters/e2e/redis/users.acl"
    wait_until(lambda: "user agent" not in (lab.ssh("master", "cat", acl).stdout or "user agent"), 60, "the fence")
    lab.ssh("n1", "touch", "/tmp/enough")
    wait_until(lambda: tasks(cluster, "long") == [("SUCCEEDED", 1, 0)], 60, "the task that went on")
    assert lab.ssh("n1", "cat", "/tmp/runs").stdout.split() == ["long", "soon"]


def set_clock(lab: SessionLab, host: str, seconds: int, folder: Path) -> None:
    """Let all services that start on this host from now on have another time."""
    require(shutil.which("gcc") is not None, "gcc", "apt-get install gcc libc6-dev")
    library = folder / "wall_clock.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-o", library, ROOT / "tests/support/wall_clock.c"], check=True)
    subprocess.run(["docker", "cp", library, f"{lab.hosts[host].container}:/usr/lib/{library.name}"], check=True)
    lab.ssh(host, "systemctl", "set-environment", f"LD_PRELOAD=/usr/lib/{library.name}", f"WALL_CLOCK={seconds}")


def restore_killed(cluster: Cluster, backup: Path, on: str, *options: str, at: str) -> None:
    process = cluster.start("restore", str(backup), "--on", on, *options, **SECRET)
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if at in line:
            break
    else:
        raise AssertionError(said)
    process.kill()
    process.communicate()


def fenced(lab: SessionLab, host: str) -> bool:
    acl = lab.ssh(host, "cat", "/var/lib/grass/clusters/e2e/redis/users.acl").stdout
    return bool(acl) and "user agent" not in acl


def test_a_master_is_replaced_on_its_own_machine_and_lost_twice_before_the_first_comes_back(
    cluster: Cluster, tmp_path: Path
) -> None:
    lab = cluster.lab
    master, n2, n3 = (lab.hosts[name].address for name in ("master", "n2", "n3"))
    backup = cluster.home / "b.grass-backup"
    job(cluster, "long", LONG)
    wait_until(lambda: lab.ssh("n1", "cat", "/tmp/runs").stdout == "long\n", 30, "the task")
    assert cluster.grass("backup", "--to", str(backup), **SECRET).returncode == 0
    lab.ssh("master", "systemctl", "stop", "grass-*@e2e.service")
    refused = cluster.grass("restore", str(backup), "--on", master, **SECRET)
    assert refused.returncode == 2 and "--replace" in refused.stderr, refused.stderr
    for step in ("put the state of the backup in place", "make keys", "start redis", "look at what listens"):
        restore_killed(cluster, backup, master, "--replace", at=step)
    done = cluster.grass("restore", str(backup), "--on", master, "--replace", **SECRET)
    assert done.returncode == 0, done.stderr
    refused = cluster.grass("restore", str(backup), "--on", master, "--replace", **SECRET)
    assert refused.returncode == 2 and "lives, and a restore would end it" in refused.stderr, refused.stderr
    wait_until(lambda: tasks(cluster, "long") == [("RUNNING", 1, None)], 60, "the task that goes on")

    lab.hosts["master"].kill()
    set_clock(lab, "n2", 3600, tmp_path)
    restore_killed(cluster, backup, n2, at="start redis")
    done = cluster.grass("restore", str(backup), "--on", n2, **SECRET)
    assert done.returncode == 2 and "the clock of n1 is 1.0 h behind the master's" in done.stderr, done.stderr
    assert tasks(cluster, "long") == [("RUNNING", 1, None)]
    lab.hosts["n2"].kill()  # before the first was fenced
    done = cluster.grass("restore", str(backup), "--on", n3, **SECRET)
    assert done.returncode == 0, done.stderr
    for host in ("master", "n2"):
        lab.hosts[host].start()
    wait_until(lambda: fenced(lab, "master") and fenced(lab, "n2"), 120, "both fences")
    assert not fenced(lab, "n3") and tasks(cluster, "long") == [("RUNNING", 1, None)]
    assert cluster.grass("run", "--", "true").returncode == 0
    assert lab.ssh("n1", "cat", "/tmp/runs").stdout == "long\n"
    lab.ssh("n1", "touch", "/tmp/enough")
    wait_until(lambda: tasks(cluster, "long") == [("SUCCEEDED", 1, 0)], 60, "the task that went on")
