"""The probe of a joining node: real tasks, a real share, a real collector; and each thing that can be missing."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from grass.wire.hello import ProbeCheck
from grass.wire.log_block import PROBE_JOB
from node.agent.gpu import devices
from node.agent.probe import probe, within
from node.mounts import mount_point
from tests.support.engine import cluster_name, remove_containers, require_engine
from tests.support.shepherd_run import ShepherdRun
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(120)


class Place:
    """A node with a shepherd; ``collector`` starts the cluster's log collector."""

    def __init__(self, shepherd: ShepherdRun) -> None:
        self.config = replace(shepherd.config, name=cluster_name())
        self.config.save()
        self.config.data_dir.mkdir()
        self._collector: subprocess.Popen[bytes] | None = None

    def start_collector(self) -> None:
        command = [sys.executable, "-m", "master.collector", str(self.config.path)]
        self._collector = subprocess.Popen(command)
        wait_until(lambda: self.config.socket("collector").exists(), what="the collector")

    def close(self) -> None:
        if self._collector is not None:
            self._collector.terminate()
            self._collector.wait(10)

    def probe(self, *runtimes: str, seconds: float = 20, gpus: tuple[int, ...] = ()) -> dict[str, ProbeCheck]:
        config = replace(self.config, node=replace(self.config.node, runtimes=runtimes))
        result = probe(config, gpus, seconds)
        checks = {check.name: check for check in result.checks}
        assert result.passed == all(check.ok for check in checks.values())
        return checks


@pytest.fixture
def shepherd() -> Iterator[ShepherdRun]:
    with ShepherdRun() as shepherd:
        shepherd.connect()
        yield shepherd


@pytest.fixture
def place(shepherd: ShepherdRun) -> Iterator[Place]:
    made = Place(shepherd)
    try:
        yield made
    finally:
        made.close()


def test_a_node_that_can_do_what_it_offers_passes_once_and_leaves_nothing(place: Place) -> None:
    require_engine()
    place.start_collector()
    checks = place.probe("process", "docker")
    assert {name: check.ok for name, check in checks.items()} == dict.fromkeys(
        ("share", "log collector", "process", "docker"), True
    ), checks
    assert not list(place.config.data_dir.glob(".probe*"))
    place.close()
    assert place.probe("process", "docker")["log collector"].ok  # it is remembered
    remove_containers(place.config.name)


@pytest.mark.parametrize(("promised", "fine"), [(3000, False), (2500, False), (2000, True), (0, None), (None, None)])
def test_fewer_gpus_than_were_promised_are_told_with_what_to_do(
    place: Place, promised: int | None, fine: bool | None
) -> None:
    place.config = replace(place.config, node=replace(place.config.node, gpu=promised))
    check = place.probe(gpus=(0, 1), seconds=0.1).get("gpu")
    assert (check.ok if check else None) is fine
    if check and not fine:
        assert "shows 2 of the 3 promised GPUs" in check.message and "grass leave" in check.message


def test_a_machine_that_offers_none_of_its_gpus_need_not_have_them_in_order(place: Place) -> None:
    place.config = replace(place.config, node=replace(place.config.node, gpu=0))
    place.start_collector()
    assert place.probe("process", gpus=(0,))["process"].message == "a task ran"


def test_after_a_boot_without_the_share_the_node_is_not_fit_until_it_is_mounted(place: Place) -> None:
    place.start_collector()
    assert place.probe("process")["process"].ok
    marker = place.config.node_dir / "probe.json"
    assert json.loads(marker.read_text())["mount"] == mount_point(place.config.data_dir)
    there = marker.read_text()
    marker.write_text(json.dumps({**json.loads(there), "mount": str(place.config.data_dir)}))
    checks = place.probe("process", seconds=0.2)
    assert not checks["share"].ok and f"nothing is mounted at {place.config.data_dir}" in checks["share"].message
    marker.write_text(there)
    assert place.probe("process")["share"].ok


def test_a_share_that_cannot_be_written_and_a_collector_that_is_away_fail_with_advice(place: Place) -> None:
    place.config.data_dir.rmdir()
    checks = place.probe("process", seconds=5.0)  # the process has as long as the collector, which is away
    assert not checks["share"].ok and "mount the share there" in checks["share"].message
    assert not checks["log collector"].ok and "firewall" in checks["log collector"].message
    assert checks["process"].ok
    assert not (place.config.node_dir / "probe.json").exists()


def test_a_folder_that_is_not_the_clusters_share_is_found_out(place: Place, tmp_path: Path) -> None:
    """A mount that failed leaves an empty folder, which can be written and read very well."""
    place.start_collector()
    right = replace(place.config, share=str(place.config.data_dir))
    place.config = replace(place.config, share=str(tmp_path))
    share = place.probe("process", seconds=6.0)["share"]
    assert not share.ok and "is not the cluster's share" in share.message
    place.config = right
    assert place.probe("process")["share"].ok


def test_containers_that_cannot_have_the_share_are_no_runtime(place: Place) -> None:
    require_engine()
    place.start_collector()
    place.config = replace(place.config, share=f"{place.config.home}/nowhere")
    docker = place.probe("docker")["docker"]
    assert not docker.ok and str(place.config.data_dir) in docker.message


def test_a_trial_that_still_hangs_from_an_earlier_probe_is_ended_first(shepherd: ShepherdRun, place: Place) -> None:
    key = f"{PROBE_JOB}/process.0/1"
    shepherd.launch("earlier", ["/bin/sh", "-c", "echo earlier; exec sleep 600"])
    shepherd.start("earlier", key)
    shepherd.started(key)
    wait_until(lambda: shepherd.stdout(key) == "earlier\n", what="its output")
    place.start_collector()
    assert place.probe("process")["process"].message == "a task ran"


def test_a_full_disk_is_named_and_no_trial_is_started(place: Place) -> None:
    place.start_collector()
    tried = place.config.node_dir / ".probe"
    tried.symlink_to("/dev/full")
    full = place.probe("process")["process"]
    assert full.message == f"cannot write in {place.config.node_dir}: no space left on device; free space on its disk"
    tried.unlink()
    assert place.probe("process")["process"].message == "a task ran"


def test_a_trial_task_sees_a_gpu_or_fails(place: Place) -> None:
    place.start_collector()
    process = place.probe("process", gpus=(0,))["process"]
    if devices():
        assert process.ok and process.message == "a task ran and saw a GPU"
        return
    assert not process.ok and "a trial task (`echo`) failed" in process.message


def test_a_share_that_hangs_does_not_hang_the_probe() -> None:
    answered = threading.Event()
    with pytest.raises(TimeoutError):
        within(0.05, lambda: str(answered.wait(20)))
    answered.set()
