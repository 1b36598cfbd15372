"""The master of a cluster on several hosts goes to another machine: tasks run and print on, and one master writes."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.test_restore import job, tasks
from tests.support.lab import SessionLab
from tests.support.on_premises import Cluster, with_a_node
from tests.support.waiting import wait_until

pytestmark = pytest.mark.nightly  # what is copied, unit/test_mirror.py; what is refused, unit/test_moving.py
TICKS = "echo ticks >> /tmp/runs; i=0; while [ ! -e /tmp/enough ]; do i=$((i+1)); echo tick $i; sleep 0.1; done"


@pytest.fixture
def cluster(lab: SessionLab, site: Path, tmp_path: Path) -> Iterator[Cluster]:
    lab.renew("master", "n1", "n2")
    with with_a_node(lab, site, tmp_path / "home") as made:
        yield made


def signpost(lab: SessionLab, host: str) -> bool:
    """Return whether an old master does nothing but send clients to the new one."""
    return units(lab, host) == ["grass-master-api-server@e2e.service"]


def move(cluster: Cluster, to: str, *options: str) -> tuple[int, str]:
    done = cluster.grass("cluster", "move", "--to", to, *options)
    return done.returncode, done.stderr


def units(lab: SessionLab, host: str) -> list[str]:
    """Return the units of a master that run there."""
    found = lab.ssh(host, "systemctl", "list-units", "--state=active", "--plain", "--no-legend", "grass-*@e2e.service")
    daemons = [line.split()[0] for line in found.stdout.splitlines()]
    return [unit for unit in daemons if re.match("grass-(redis|collector|monitor|samba|master)", unit)]


def killed(cluster: Cluster, to: str, at: str) -> None:
    """Kill a move as soon as it says this."""
    process = cluster.start("cluster", "move", "--to", to)
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


def test_tasks_run_and_print_through_a_move_that_is_killed_and_repeated(cluster: Cluster) -> None:
    lab = cluster.lab
    old, n1, n2 = (lab.hosts[name].address for name in ("master", "n1", "n2"))
    job(cluster, "ticks", TICKS)
    user = replace(cluster, home=shutil.copytree(cluster.home, cluster.home.with_name("user")))
    wait_until(lambda: lab.ssh("n1", "cat", "/tmp/runs").stdout == "ticks\n", 30, "the task")
    for to, code, why in (
        (old, 2, "is the master already"),
        (n1, 2, "is a node of cluster"),
        ("10.213.255.254" if old.startswith("10.213.0.") else "127.0.0.2", 3, "no SSH at"),
    ):
        refused = move(cluster, to)
        assert refused[0] == code and why in refused[1], refused
    lab.hosts["n1"].hang()
    wait_until(lambda: "SILENT" in cluster.grass("node", "list").stdout, 30, "the silence of n1")
    refused = move(cluster, n2)
    assert refused[0] == 2 and "nodes could not be told" in refused[1] and "n1:" in refused[1], refused
    lab.hosts["n1"].resume()
    wait_until(lambda: "READY" in cluster.grass("node", "list").stdout, 30, "n1 again")

    killed(cluster, n2, "the old master stops")  # it goes on by itself
    wait_until(lambda: cluster.grass("status").returncode == 0, 90, "the old master")
    assert len(units(lab, "master")) >= 5 and not units(lab, "n2")
    killed(cluster, n2, ": fenced")  # nobody is the master now
    assert not units(lab, "master")
    assert "is its master no more" in cluster.create().stderr
    code, said = move(cluster, n2)
    assert code == 0, said
    assert tasks(cluster, "ticks") == [("RUNNING", 1, None)]
    asked = user.grass("status")  # who knows only the old address
    assert asked.returncode == 0 and f"has moved to http://{n2}:" in asked.stderr, (asked, said)
    assert "has moved" not in user.grass("status").stderr

    lab.hosts["master"].kill()
    lab.hosts["master"].start()
    lab.hosts["master"].wait_booted()
    lab.ssh("master", "systemctl", "start", "grass-redis@e2e.service", "grass-master-agent@e2e.service")
    wait_until(lambda: signpost(lab, "master"), 30, "only the signpost")
    assert len(units(lab, "n2")) >= 5

    code, said = move(cluster, old)  # and back
    assert code == 0, said
    assert signpost(lab, "n2") and len(units(lab, "master")) >= 5
    asked = user.grass("job", "list")
    assert asked.returncode == 0 and f"has moved to http://{old}:" in asked.stderr, asked.stderr
    lab.ssh("n1", "touch", "/tmp/enough")
    wait_until(lambda: tasks(cluster, "ticks") == [("SUCCEEDED", 1, 0)], 60, "the task that went on")
    assert lab.ssh("n1", "cat", "/tmp/runs").stdout == "ticks\n"
    lines = [
        json.loads(line)["text"] for line in cluster.grass("job", "logs", "ticks", "-o", "json").stdout.splitlines()
    ]
    assert lines == [f"tick {number}" for number in range(1, len(lines) + 1)] and len(lines) > 100
    assert cluster.grass("run", "--", "true").returncode == 0
