"""What `grass status` says of a cluster that does not answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from grass.provision.provisioner import DaemonState
from grass.provision.trouble import trouble

RUNS = DaemonState("redis", 1, "RUNNING", 1.0)
STOPPED = DaemonState("redis", None, "STOPPED", None)


def test_a_cluster_that_runs_on_a_disk_with_space_is_in_no_trouble(tmp_path: Path) -> None:
    assert trouble(tmp_path, [RUNS, STOPPED]) == []


def test_a_stopped_cluster_is_said_to_be_and_how_it_starts_again(tmp_path: Path) -> None:
    home = tmp_path / "lab"
    home.mkdir()
    for daemons in ([STOPPED, STOPPED], [STOPPED, replace(RUNS, state="ORPHANED")]):
        [message] = trouble(home, daemons)
        assert message.startswith("the cluster lab is stopped; `grass create`")


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    [message] = trouble(tmp_path, [RUNS], least_free=1 << 62)
    assert message.startswith(f"the disk of {tmp_path} is full (")
