"""A master with a standby loses power: the standby takes over, no job is lost, and the old master becomes a standby."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from grass.api.client import Client
from tests.support.lab import SessionLab
from tests.support.on_premises import Cluster, with_a_node
from tests.support.waiting import wait_until

pytestmark = pytest.mark.nightly  # decisions: unit/test_failover_check.py; redis: contract/test_replication.py
LONG = "echo long >> /tmp/runs; while [ ! -e /tmp/enough ]; do sleep 0.2; done"
HOME = "/var/lib/grass/clusters/e2e"


@pytest.fixture
def cluster(lab: SessionLab, site: Path, tmp_path: Path) -> Iterator[Cluster]:
    with with_a_node(lab, site, tmp_path / "home", standby=lab.hosts["n2"].address) as made:
        yield made


def started(cluster: Cluster, name: str, command: str) -> None:
    file = cluster.home / f"{name}.yml"
    file.write_text(json.dumps({"name": name, "components": {"w": {"command": command}}}))
    assert cluster.grass("job", "start", str(file)).returncode == 0


def states(cluster: Cluster) -> dict[str, tuple[str, int]]:
    """Return state and attempt of the first task of each job."""
    with Client(cluster.name, home=cluster.home) as client:
        return {job.name: (task.state, task.attempt) for job in client.jobs(all=True) for task in client.tasks(job.id)}


def in_step(cluster: Cluster) -> bool:
    with Client(cluster.name, home=cluster.home) as client:
        view = client.status().standby
        return view is not None and view.state == "in step"


def test_a_standby_takes_over_and_the_old_master_becomes_its_standby(cluster: Cluster) -> None:
    lab = cluster.lab
    wait_until(lambda: in_step(cluster), 60, "the standby")
    started(cluster, "long", LONG)
    wait_until(lambda: states(cluster)["long"] == ("RUNNING", 1), 30, "the task")
    for number in range(10):
        started(cluster, f"last-{number}", "true")  # the last ones are not even placed when the power goes
    lab.hosts["master"].kill()
    done = cluster.grass("cluster", "failover")
    assert done.returncode == 0 and "may lack" not in done.stdout, done.stderr
    wait_until(
        lambda: all(state == "SUCCEEDED" for name, (state, _) in states(cluster).items() if name != "long"), 60, "jobs"
    )
    found = states(cluster)
    assert len(found) == 11 and found["long"] == ("RUNNING", 1), "adopted, not started again"

    lab.hosts["master"].start()
    acl = f"{HOME}/redis/users.acl"
    wait_until(lambda: "user agent" not in (lab.ssh("master", "cat", acl).stdout or "user agent"), 60, "the fence")
    old, new = cluster.settings["master"]["address"], cluster.settings["standby"]
    cluster.settings |= {"master": {"address": new}, "standby": old}
    assert (done := cluster.create()).returncode == 0, done.stderr
    wait_until(lambda: in_step(cluster), 60, "the new standby")
    assert lab.ssh("master", "ls", HOME).stdout.count("replaced-") == 1, "what the old master had is kept"

    done = cluster.grass("cluster", "failover")  # planned: the master stops, and nothing is lost
    assert done.returncode == 0, done.stderr
    lab.ssh("n1", "touch", "/tmp/enough")
    wait_until(lambda: states(cluster)["long"] == ("SUCCEEDED", 1), 60, "the task that went on")
    assert lab.ssh("n1", "cat", "/tmp/runs").stdout.split() == ["long"]
    assert cluster.grass("cluster", "failover").returncode == 2  # there is no standby now


def try_to_start(cluster: Cluster, name: str) -> tuple[int, str]:
    file = cluster.home / f"{name}.yml"
    file.write_text(json.dumps({"name": name, "components": {"w": {"command": "true"}}}))
    done = cluster.grass("job", "start", str(file))
    return done.returncode, done.stderr


def standby_state(cluster: Cluster) -> str:
    with Client(cluster.name, home=cluster.home) as client:
        view = client.status().standby
        return view.state if view is not None else ""


def events(cluster: Cluster) -> str:
    return cluster.grass("events", "--kind", "standby").stdout


def doctor(cluster: Cluster) -> str:
    return cluster.grass("doctor").stdout


def test_a_master_that_needs_its_standby_refuses_writes_without_it_and_says_why(cluster: Cluster) -> None:
    lab, where = cluster.lab, cluster.settings["standby"]
    cluster.settings["standby"] = {"address": where, "when_away": "refuse"}
    assert (done := cluster.create()).returncode == 0, done.stderr
    wait_until(lambda: in_step(cluster), 60, "the standby")
    assert f"standby of {cluster.name}" not in doctor(cluster)
    started(cluster, "long", LONG)
    wait_until(lambda: states(cluster)["long"] == ("RUNNING", 1), 30, "the task")

    lab.ssh("n2", "systemctl", "stop", "grass-standby@e2e")
    wait_until(lambda: standby_state(cluster) == "away", 60, "the absence of the standby")
    code, said = try_to_start(cluster, "refused")
    assert code == 3 and "the store refuses writes: the standby is away" in said, (code, said)
    assert f"✗ standby of {cluster.name}: {where} is away" in doctor(cluster)
    assert states(cluster) == {"long": ("RUNNING", 1)}
    lab.ssh("n2", "systemctl", "start", "grass-standby@e2e")
    wait_until(lambda: in_step(cluster), 60, "the standby again")
    assert try_to_start(cluster, "accepted")[0] == 0
    wait_until(
        lambda: "writes are refused until it is back" in events(cluster), 30, "the event, once it can be written"
    )
    lab.ssh("n1", "touch", "/tmp/enough")
    wait_until(lambda: states(cluster)["long"] == ("SUCCEEDED", 1), 60, "the task that went on")


def test_a_failover_that_would_lose_what_was_acknowledged_is_refused_and_may_be_forced(cluster: Cluster) -> None:
    lab = cluster.lab
    wait_until(lambda: in_step(cluster), 60, "the standby")
    started(cluster, "kept", LONG)
    wait_until(lambda: states(cluster)["kept"] == ("RUNNING", 1), 30, "the task")
    wait_until(lambda: in_step(cluster), 60, "the standby")
    lab.ssh("n2", "systemctl", "stop", "grass-standby@e2e")
    wait_until(lambda: standby_state(cluster) == "away", 60, "the absence of the standby")
    assert try_to_start(cluster, "alone")[0] == 0
    lab.hosts["master"].kill()
    refused = cluster.grass("cluster", "failover")
    assert refused.returncode == 2 and "nothing was changed; --force goes on" in refused.stderr, refused.stderr
    done = cluster.grass("cluster", "failover", "--force")
    assert done.returncode == 0 and "may lack up to" in done.stdout, (done.stdout, done.stderr)
    assert "alone" not in states(cluster), "what it acknowledged alone is lost, as was said"
    lab.ssh("n1", "touch", "/tmp/enough")
    wait_until(lambda: states(cluster)["kept"] == ("SUCCEEDED", 1), 60, "the task that went on")
