"""A master with a standby and a witness: power loss, and cuts of each pair. Two never write, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from grass.api.client import Client
from grass.system.clock import steady
from grass.wire.standby import StandbyView
from scripts.labkit.command import LabError
from tests.support.lab import SessionLab
from tests.support.on_premises import Cluster
from tests.support.waiting import wait_until
from tests.support.witnessed import Submitter, apart, fenced, is_master, started, states, takes_over, view_of, witnessed

pytestmark = pytest.mark.nightly  # the rules: property/test_witness.py; the store: contract/test_replication.py
LONG = "echo long >> /tmp/runs; while [ ! -e /tmp/enough ]; do sleep 0.2; done"


@pytest.fixture
def cluster(lab: SessionLab, site: Path, tmp_path: Path) -> Iterator[Cluster]:
    with witnessed(lab, site, tmp_path) as made:
        yield made


def test_a_standby_takes_over_by_itself_when_the_master_loses_its_power(cluster: Cluster) -> None:
    lab = cluster.lab
    started(cluster, "long", LONG)
    wait_until(lambda: states(cluster)["long"] == ("RUNNING", 1), 30, "the task")

    apart(lab, "n2", ("master",))  # only from the standby: the witness hears of the master
    wait_until(lambda: "goes on alone" in (view_of(cluster) or StandbyView("", "", 0)).why, 30, "the consent")
    started(cluster, "alone", "true")
    with pytest.raises(AssertionError):
        wait_until(lambda: is_master(lab, "n2"), 30, "a failover that must not be")
    apart(lab, "n2", ("master",), healed=True)
    wait_until(lambda: takes_over(cluster), 60, "that both are together again")

    for number in range(10):
        started(cluster, f"last-{number}", "true")
    lab.hosts["master"].kill()
    began = steady()
    wait_until(lambda: is_master(lab, "n2"), 90, "the takeover")
    print("master's API on the standby's machine after", round(steady() - began, 1), "s")
    wait_until(
        lambda: all(state == "SUCCEEDED" for name, (state, _) in states(cluster).items() if name != "long"), 60, "jobs"
    )
    print("all jobs done after", round(steady() - began, 1), "s")
    found = states(cluster)
    assert len(found) == 12 and found["long"] == ("RUNNING", 1), "adopted, not started again"
    with Client(cluster.name, home=cluster.home) as client:
        assert any("took over from the master" in event.message for event in client.events())

    with suppress(LabError):  # its master-agent waits for a consent, so systemd is not done within a minute
        lab.hosts["master"].start()
    wait_until(lambda: fenced(lab), 60, "the fence")
    refused = cluster.create()  # this machine still takes the old one for the master
    assert refused.returncode == 2 and "took over from the master by itself" in refused.stderr
    done = cluster.grass("cluster", "failover")  # tells this machine, and disables the old units
    assert done.returncode == 0, done.stderr
    lab.ssh("n1", "touch", "/tmp/enough")
    lab.ssh("n3", "touch", "/tmp/enough")
    wait_until(lambda: states(cluster)["long"] == ("SUCCEEDED", 1), 60, "the task that went on")


def test_a_master_without_standby_and_witness_stops_before_there_is_another(cluster: Cluster, tmp_path: Path) -> None:
    lab, submitter = cluster.lab, Submitter(cluster, tmp_path)
    apart(lab, "master", ("n1", "n2"))
    wait_until(lambda: is_master(lab, "n2"), 90, "the takeover")
    began = steady()
    accepted = submitter.end()
    print("last job of the old master", round(began - max(accepted.values()), 1), "s before the new one answers")
    assert max(accepted.values()) < began - 1
    wait_until(lambda: accepted.keys() <= states(cluster).keys(), 60, "what was acknowledged")
    apart(lab, "master", ("n1", "n2"), healed=True)
    wait_until(lambda: fenced(lab), 60, "the fence")
