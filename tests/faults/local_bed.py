"""A cluster on one machine, with processes only."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from grass.manifest.local_settings import LocalSettings, OfferedResources
from grass.model.daemons import SHEPHERD
from grass.supervision import processes
from tests.faults.bed import Bed
from tests.faults.table import ONE_MACHINE
from tests.support.local_cluster import LocalCluster
from tests.support.waiting import wait_until

PATIENCE = 30.0


class LocalBed(Bed):
    name = ONE_MACHINE

    def __init__(self, cluster: LocalCluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self.marks, self.python = str(folder), sys.executable
        self.there = {}
        self.seat = {"seats": 1}
        self.client = cluster.client()

    def before(self, number: int) -> None:
        """Replace a shepherd that lost its guard in an earlier round: what it is starting when it is killed may then
        have an end that nobody knows (ADR 6)."""
        if self._shepherd_is_guarded():
            return
        pid = processes.shepherd_pid(self.cluster.config)
        if pid is not None:
            with suppress(ProcessLookupError):  # the next one is being started
                os.kill(pid, signal.SIGTERM)
        wait_until(self._shepherd_is_guarded, PATIENCE, "a shepherd with a guard")
        wait_until(self.is_up, PATIENCE, "a cluster that is up")

    def _shepherd_is_guarded(self) -> bool:
        pid = processes.shepherd_pid(self.cluster.config)
        try:
            return pid is not None and psutil.Process(pid).ppid() == self.cluster.pid(SHEPHERD.name)
        except psutil.NoSuchProcess:
            return False

    def grass(self, *words: str) -> subprocess.Popen[str]:
        environment = {**os.environ, "GRASS_HOME": str(self.cluster.home)}
        program = [sys.executable, "-m", "grass.cli.entry", *words]
        pipe = subprocess.PIPE
        return subprocess.Popen(program, env=environment, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True)

    def lines_of(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def write(self, name: str) -> None:
        (self.folder / name).touch()

    def is_up(self) -> bool:
        states = self.cluster.states()
        return set(states.values()) == {"RUNNING"} and [node.state for node in self.client.nodes()] == ["READY"]


@contextmanager
def local_bed(small: str = "") -> Iterator[LocalBed]:
    """``small``: options of a file system of memory, which a fault may fill; the marks are elsewhere."""
    settings = LocalSettings(resources=OfferedResources(custom={"seats": 1}))
    marks = Path(tempfile.mkdtemp(prefix="grass-marks-", dir="/tmp"))
    try:
        with _home(small) as home, LocalCluster(settings, home=home).running() as cluster:
            bed = LocalBed(cluster, marks)
            try:
                yield bed
            finally:
                bed.client.close()
    finally:
        shutil.rmtree(marks)


@contextmanager
def _home(small: str) -> Iterator[Path]:
    home = Path(tempfile.mkdtemp(prefix="grass-test-", dir="/tmp"))
    if not small:
        yield home
        return
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"{small},mode=0700", "tmpfs", str(home)], check=True)
    try:
        yield home
    finally:
        subprocess.run(["umount", "--lazy", str(home)], check=True)
        home.rmdir()
