"""A witness, and what could deceive it: clocks that differ, paused masters, another witness, another cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from grass.errors import GrassError
from grass.model.daemons import MASTER_DAEMONS
from grass.system.clock import steady
from scripts.labkit.command import docker
from tests.support.clock import FAST, SHIFT, shifted_clock
from tests.support.lab import SessionLab
from tests.support.on_premises import Cluster
from tests.support.waiting import wait_until
from tests.support.witnessed import (
    HOME,
    Submitter,
    apart,
    fenced,
    is_master,
    started,
    states,
    takes_over,
    view_of,
    witnessed,
)

pytestmark = pytest.mark.nightly  # the rules: property/test_witness.py; the record: unit/test_witness_desk.py
OF_MASTER = tuple(f"grass-{daemon}@e2e" for daemon in ("redis", *MASTER_DAEMONS))
OF_STANDBY = ("grass-redis@e2e", "grass-standby@e2e")


@pytest.fixture
def cluster(lab: SessionLab, site: Path, tmp_path: Path) -> Iterator[Cluster]:
    with witnessed(lab, site, tmp_path) as made:
        yield made


def set_clock(lab: SessionLab, host: str, units: tuple[str, ...], hours: int, fast: int, library: Path) -> None:
    there = "/usr/local/lib/libshifted.so"
    docker("cp", str(library), f"{lab.hosts[host].container}:{there}")
    drop_in = f"[Service]\nEnvironment=LD_PRELOAD={there} {SHIFT}={3600 * hours} {FAST}={fast}\n"
    for unit in units:
        folder = f"/etc/systemd/system/{unit}.service.d"
        lab.hosts[host].run("sh", "-c", 'mkdir -p "$0" && cat > "$0/clock.conf"', folder, text_in=drop_in)
    lab.hosts[host].sh("systemctl daemon-reload")
    lab.hosts[host].attempt("systemctl", "restart", *units, seconds=180)  # a master-agent may wait for its standby


def is_ready(cluster: Cluster, witness: str = "n1") -> bool:
    """Return whether the master answers, and its standby would take over."""
    try:
        return takes_over(cluster, witness)
    except GrassError:
        return False


def ends_with_the_new_master(cluster: Cluster, submitter: Submitter) -> None:
    """The old one is fenced, and all that was acknowledged is there, whoever did so."""
    wait_until(lambda: fenced(cluster.lab), 90, "the fence")
    accepted = submitter.end()
    wait_until(lambda: accepted.keys() <= states(cluster).keys(), 60, "what was acknowledged")


def test_clocks_that_differ_and_run_at_other_speeds_let_no_two_masters_write(cluster: Cluster, tmp_path: Path) -> None:
    """The worst: the master is slow to stop, the standby and the witness are quick to go on."""
    lab, library = cluster.lab, shifted_clock(tmp_path)
    set_clock(lab, "n2", OF_STANDBY, -1, 10, library)
    set_clock(lab, "n1", ("grass-node-api-server@e2e",), 0, 10, library)
    set_clock(lab, "master", OF_MASTER, 1, -10, library)
    wait_until(lambda: is_ready(cluster), 120, "that the standby would take over")
    submitter = Submitter(cluster, tmp_path)
    apart(lab, "master", ("n1", "n2"))
    wait_until(lambda: is_master(lab, "n2"), 120, "the takeover")
    began = steady()
    last = max(submitter.accepted.values())
    print("last job of the old master", round(began - last, 1), "s before the new one answers")
    assert last < began - 1
    apart(lab, "master", ("n1", "n2"), healed=True)
    ends_with_the_new_master(cluster, submitter)


@pytest.mark.parametrize("paused", ["the machine", "the daemons"])
def test_a_master_that_was_paused_until_there_is_another_acknowledges_nothing_more(
    cluster: Cluster, tmp_path: Path, paused: str
) -> None:
    """Calls are under way when it stops, and when it goes on."""
    lab, submitter = cluster.lab, Submitter(cluster, tmp_path)
    host = lab.hosts["master"]

    def every_process(signal: str) -> None:
        """All at once, and their children: systemd would see one that is away for long, and start it again."""
        host.sh(f"systemctl kill --kill-whom=all --signal={signal} {' '.join(OF_MASTER)}")

    if paused == "the machine":
        host.hang()
    else:
        every_process("STOP")
    wait_until(lambda: is_master(lab, "n2"), 120, "the takeover")
    before = set(submitter.accepted)
    if paused == "the machine":
        host.resume()
    else:
        every_process("CONT")
    ends_with_the_new_master(cluster, submitter)
    print("acknowledged by then:", len(before), "and since:", len(set(submitter.accepted) - before))


def test_another_node_becomes_the_witness_of_a_living_cluster(cluster: Cluster) -> None:
    lab = cluster.lab
    started(cluster, "before", "true")
    lab.hosts["n3"].cut()
    cluster.settings["standby"]["witness"] = "n3"
    done = cluster.create()
    assert done.returncode == 3 and "n3" in done.stderr, done.stderr
    started(cluster, "meanwhile", "true")
    lab.hosts["n3"].heal()
    done = cluster.create()
    assert done.returncode == 0, done.stderr
    wait_until(lambda: is_ready(cluster, "n3"), 60, "the new witness")
    lab.hosts["n1"].cut()  # nobody needs the former one
    started(cluster, "after", "true")
    lab.hosts["master"].kill()
    wait_until(lambda: is_master(lab, "n2"), 120, "the takeover")
    wait_until(lambda: {"before", "meanwhile", "after"} <= states(cluster).keys(), 60, "what was acknowledged")
    lab.hosts["n1"].heal()


def test_a_new_cluster_of_the_same_name_begins_anew_on_the_machine_of_a_witness(
    cluster: Cluster, tmp_path: Path
) -> None:
    lab = cluster.lab
    lab.hosts["master"].kill()
    wait_until(lambda: is_master(lab, "n2"), 120, "the takeover")
    kept = lab.ssh("n1", "cat", f"{HOME}/witness.json").stdout
    assert '"voted":"10.' in kept, kept

    def term() -> str:
        return lab.ssh("n1", "cat", f"{HOME}/master-term").stdout

    wait_until(lambda: term().startswith("1 "), 60, "the new address")
    of_the_first = term()
    for host in ("master", "n2", "n3"):
        lab.reset(host)
        lab.show_folder(host, tmp_path / "share", "/srv/grass")
    other = Cluster(lab, cluster.site, tmp_path / "other", cluster.settings)
    done = other.create()
    assert done.returncode == 0, done.stderr
    assert is_ready(other), view_of(other)
    lab.hosts["master"].kill()
    wait_until(lambda: is_master(lab, "n2"), 120, "the takeover of the new cluster's standby")
    wait_until(lambda: term().startswith("1 ") and term() != of_the_first, 60, "the new address, again")
    started(other, "after", "true")
